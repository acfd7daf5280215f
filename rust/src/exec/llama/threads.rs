//! How many threads compute a pass, found while serving.
//!
//! The threads of a pass wait for each other some hundred times in it, spinning. One whose core does something else (the
//! server's other process, a neighbour) makes all wait, and on one that shares a core with another thread of the same pass
//! nothing is won. How many are best depends on the model, on the rows of the pass, and on what else the machine does at the
//! moment: so passes are timed, and a share of the time is spent on looking at the next larger and smaller number. Few steps
//! down from all threads suffice: all, one less (a neighbour takes a core), halves.
//!
//! What passes take is known in two parts: the least for their rows, which stays, and by how much passes with so many
//! threads are held up, which changes with the neighbours and is the same for all rows, so that a prompt profits from what
//! was seen of single tokens. Long passes are held up less: for these it is a guess on the side of fewer threads, which
//! matters only where single tokens take twice their time.

/// Share of the time of passes with about as many rows that is spent on looking.
const SHARE: f64 = 1.0 / 48.0;
/// Seconds of looking that these may spend before they have taken any, so that what costs little is known soon.
const ADVANCE: f64 = 0.05;
/// Passes of one look. The first is not counted: its threads may have slept.
const LOOK: u32 = 4;
/// How much longer a pass may take with fewer threads: what a core that is free is worth to masks and HTTP.
const WORTH: f64 = 1.05;
/// Passes that are remembered: enough to see what holds up one in a hundred for the time of many.
const RECENT: f64 = 32.0;
/// By how much the least time rises with each pass, since contexts grow.
const RISE: f64 = 1.0 + 1.0 / 1024.0;

/// Numbers of threads worth a look, falling.
pub(super) fn sizes(most: u32) -> Vec<u32> {
    let halves = std::iter::successors(Some(most / 2), |n| Some(n / 2)).take_while(|n| *n > 0);
    let mut sizes =
        Vec::from_iter([most, most.saturating_sub(1)].into_iter().chain(halves).filter(|n| *n > 0));
    sizes.dedup();
    sizes
}

/// Which of some numbers of threads the next pass gets, by their index.
#[derive(Debug)]
pub(super) enum Threads {
    /// The first.
    All,
    /// One after the other, to see whether that changes anything but the time.
    Turns(usize),
    /// What takes least.
    Least(Least),
}

impl Threads {
    /// For a pass with so many rows, of `sizes`.
    pub(super) fn choose(&mut self, sizes: &[u32], rows: u32) -> usize {
        match self {
            Threads::All => 0,
            Threads::Turns(turn) => {
                *turn = (*turn + 1) % sizes.len();
                *turn
            }
            Threads::Least(least) => least.choose(sizes, rows),
        }
    }

    /// Learns what the pass took.
    pub(super) fn learn(&mut self, rows: u32, index: usize, seconds: f64) {
        if let Threads::Least(least) = self {
            least.learn(rows, index, seconds);
        }
    }
}

/// What was learned.
#[derive(Debug, Default)]
pub(super) struct Least {
    /// By powers of two of rows.
    classes: Vec<Class>,
    /// For each number of threads, mean of what passes took over the least, and of how many passes.
    held_up: Vec<(f64, f64)>,
}

/// Of passes with about as many rows.
#[derive(Debug)]
struct Class {
    /// Least seconds for each number of threads; infinite where unseen.
    least: Vec<f64>,
    /// The number that passes take which are no look.
    chosen: usize,
    /// Index that is looked at.
    look: Option<usize>,
    /// Passes still to come until the look ends, or until the next one may begin.
    left: u32,
    /// Whether the last look was at more threads.
    upwards: bool,
    /// Seconds that looks may take.
    account: f64,
}

impl Least {
    fn class(&mut self, rows: u32) -> usize {
        let class = rows.max(1).ilog2() as usize;
        while self.classes.len() <= class {
            let least = vec![f64::INFINITY; self.held_up.len()];
            self.classes.push(Class {
                least,
                chosen: 0,
                look: None,
                left: LOOK,
                upwards: true,
                account: ADVANCE,
            });
        }
        class
    }

    fn choose(&mut self, sizes: &[u32], rows: u32) -> usize {
        self.held_up.resize(sizes.len(), (1.0, 0.0));
        let class = self.class(rows);
        if self.classes[class].look.is_none() {
            self.classes[class].chosen = self.best(class, sizes);
            self.begin_look(class, sizes);
        }
        let of = &self.classes[class];
        of.look.unwrap_or(of.chosen)
    }

    fn begin_look(&mut self, class: usize, sizes: &[u32]) {
        let of = &mut self.classes[class];
        let (more, fewer) = (of.chosen.checked_sub(1), Some(of.chosen + 1).filter(|i| *i < sizes.len()));
        let next = if of.upwards { fewer.or(more) } else { more.or(fewer) };
        let cost = |i: usize| f64::from(LOOK) * self.held_up[i].0 * of.least(i, sizes);
        if let Some(next) = next.filter(|i| of.left == 0 && cost(*i) <= of.account) {
            (of.look, of.left) = (Some(next), LOOK);
        }
    }

    /// The fewest that take hardly longer than the best, of those that have computed anything.
    fn best(&self, class: usize, sizes: &[u32]) -> usize {
        let seconds = |i: usize| self.held_up[i].0 * self.classes[class].least(i, sizes);
        let seen = (0..sizes.len()).filter(|i| self.held_up[*i].1 > 0.0);
        let least = seen.clone().map(seconds).fold(f64::INFINITY, f64::min);
        seen.rev().find(|i| seconds(*i) <= least * WORTH).unwrap_or(0)
    }

    fn learn(&mut self, rows: u32, index: usize, seconds: f64) {
        let class = self.class(rows);
        let of = &mut self.classes[class];
        of.least[index] = seconds.min(of.least[index] * RISE);
        let counted = of.look.is_none() || of.left < LOOK;
        of.left = of.left.saturating_sub(1);
        if of.look.is_none() {
            of.account += SHARE * seconds;
        } else {
            of.account -= seconds;
            if of.left == 0 || (counted && of.account < 0.0) {
                (of.look, of.left, of.upwards) = (None, LOOK, index < of.chosen);
            }
        }
        if counted {
            let (mean, count) = &mut self.held_up[index];
            *count = (*count + 1.0).min(RECENT);
            *mean += (seconds / of.least[index] - *mean) / *count;
        }
    }
}

impl Class {
    /// Least seconds with so many threads; where unseen, as if all of a pass were shared out among fewer, and nothing won by
    /// more.
    fn least(&self, index: usize, sizes: &[u32]) -> f64 {
        let seen = (0..sizes.len()).filter(|i| self.least[*i].is_finite());
        let nearest = seen.min_by_key(|i| i.abs_diff(index));
        let shared = |i: usize| (f64::from(sizes[i]) / f64::from(sizes[index])).max(1.0);
        nearest.map_or(1.0 / f64::from(sizes[index]), |i| self.least[i] * shared(i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds of work that can be shared out, of work that cannot, and one pass in so many that is held up for 10 ms if it
    /// has more than so many threads.
    #[derive(Debug, Clone, Copy)]
    struct Machine {
        shared: f64,
        alone: f64,
        held_up: Option<(u32, u32)>,
    }

    impl Machine {
        fn seconds(&self, threads: u32, pass: u32) -> f64 {
            let late = self.held_up.is_some_and(|(every, from)| threads > from && pass % every == every / 2);
            self.shared / f64::from(threads) + self.alone + if late { 0.01 } else { 0.0 }
        }
    }

    const QUIET: Machine = Machine { shared: 0.0002, alone: 0.00005, held_up: None };
    /// The chosen number after so many passes of one row, and how much longer than with the best number they took.
    fn serve(threads: &mut Threads, cores: u32, machine: Machine, passes: u32) -> (u32, f64) {
        let sizes = sizes(cores);
        let mut took = 0.0;
        let mut best = vec![0.0; sizes.len()];
        for pass in 0..passes {
            let index = threads.choose(&sizes, 1);
            let seconds = machine.seconds(sizes[index], pass);
            threads.learn(1, index, seconds);
            took += seconds;
            best.iter_mut().zip(&sizes).for_each(|(best, n)| *best += machine.seconds(*n, pass));
        }
        let Threads::Least(least) = threads else { panic!("chosen by time") };
        (sizes[least.classes[0].chosen], took / best.into_iter().fold(f64::INFINITY, f64::min))
    }

    #[test]
    fn a_few_numbers_are_looked_at() {
        assert_eq!(sizes(16), [16, 15, 8, 4, 2, 1]);
        assert_eq!((sizes(3), sizes(2), sizes(1)), (vec![3, 2, 1], vec![2, 1], vec![1]));
    }

    #[test]
    fn the_machine_decides_and_may_change() {
        for (cores, left, enough) in [(2, 1, 2), (16, 8, 8)] {
            let busy = Machine { held_up: Some((20, left)), ..QUIET };
            let mut threads = Threads::Least(Least::default());
            for (machine, wanted) in [(QUIET, enough..=cores), (busy, left..=left), (QUIET, enough..=cores)] {
                let (_, first) = serve(&mut threads, cores, machine, 20_000);
                let (chosen, then) = serve(&mut threads, cores, machine, 20_000);
                assert!(wanted.contains(&chosen), "{chosen} of {cores}, {machine:?}");
                assert!(first < 1.3 && then < 1.12, "{cores} cores, {machine:?}: {first:.3} {then:.3}");
            }
        }
    }

    #[test]
    fn a_neighbour_takes_one_core() {
        let mut threads = Threads::Least(Least::default());
        let machine = Machine { shared: 0.016, alone: 0.0005, held_up: Some((2, 15)) };
        let (chosen, _) = serve(&mut threads, 16, machine, 2_000);
        let (again, took) = serve(&mut threads, 16, machine, 2_000);
        assert!(chosen == 15 && again == 15 && took < 1.1, "{chosen} {again} {took}");
    }

    #[test]
    fn long_passes_are_not_made_longer() {
        // The thirty prompts of a second each that come first, and what a large model decodes beside a transient build.
        let mut threads = Threads::Least(Least::default());
        let prompts = Machine { shared: 2.0, alone: 0.0, held_up: None };
        let (chosen, took) = serve(&mut threads, 2, prompts, 30);
        assert!(chosen == 2 && took < 1.001, "{chosen} {took}");
        let mut threads = Threads::Least(Least::default());
        let large = Machine { shared: 0.02, alone: 0.0, held_up: Some((3, 1)) };
        serve(&mut threads, 2, large, 100);
        let (chosen, took) = serve(&mut threads, 2, Machine { held_up: None, ..large }, 1_000);
        assert!(chosen == 2 && took < 1.1, "{chosen} {took}");
    }

    #[test]
    fn prompts_profit_from_what_was_seen_of_single_tokens() {
        let mut threads = Threads::Least(Least::default());
        serve(&mut threads, 2, Machine { held_up: Some((2, 1)), ..QUIET }, 200);
        assert_eq!(threads.choose(&sizes(2), 100), 1, "one thread, at once");
    }

    #[test]
    fn rows_have_their_own_numbers() {
        let mut threads = Threads::Least(Least::default());
        let sizes = sizes(2);
        for _ in 0..5_000 {
            for (rows, seconds) in [(1, [0.002, 0.001]), (16, [0.002, 0.003])] {
                let index = threads.choose(&sizes, rows);
                threads.learn(rows, index, seconds[index]);
            }
        }
        let Threads::Least(least) = threads else { unreachable!() };
        assert_eq!((least.classes[0].chosen, least.classes[4].chosen), (1, 0));
    }
}
