//! Types whose weights are found in a grid by number: IQ2 and IQ3, and for IQ1 what they have in common.
//!
//! Numbers, signs and scales are taken apart in vectors of rows, as in other types; only the entries are looked up one by one. The
//! grids are ggml's: they are read by letting it decode blocks that name each entry.

use super::formats::{CHUNK, CHUNKS, Rows, Take, halves};
use super::lanes::Lanes;
use super::product::TILE;
use super::superblocks::{Scales, SuperBlock, fetch};
use llama_cpp_sys_2 as sys;
use std::array::from_fn;
use std::mem::MaybeUninit;
use std::sync::LazyLock;

/// What is added to weights makes bytes without sign of them: 2 to the power of this.
pub(super) const BIAS: usize = 6;
/// The largest byte.
pub(super) const MOST: i32 = 127;

/// The first 8 weights of a block that names each entry of a grid. `low` and `high`: which bytes of the block have the low 8 bits of its
/// first number, and the others. `scale`: of the block, an f16 that makes weights what entries are. `byte`: of a weight.
pub(super) fn read_grid<const N: usize>(
    (ty, bytes): (sys::ggml_type, usize),
    (low, high): (usize, usize),
    scale: u16,
    byte: impl Fn(f32) -> f32,
) -> [u64; N] {
    let mut block = vec![0u8; bytes];
    block[..2].copy_from_slice(&scale.to_ne_bytes());
    let mut weights = [0f32; CHUNK * CHUNKS];
    from_fn(|entry| {
        [block[low], block[high]] = [entry as u8, (entry >> 8) as u8];
        // SAFETY: a block of the type, and room for its weights. Every type of a file can be decoded.
        unsafe {
            if let Some(decode) = (*sys::ggml_get_type_traits(ty)).to_float {
                decode(block.as_ptr().cast(), weights.as_mut_ptr(), weights.len() as i64);
            }
        }
        u64::from_le_bytes(from_fn(|i| byte(weights[i]) as u8))
    })
}

/// 8, 4 and 1 as f16.
const EIGHT: u16 = 0x4800;
const FOUR: u16 = 0x4400;
pub(super) const ONE: u16 = 0x3c00;

static IQ2_XXS: LazyLock<[u64; 256]> =
    LazyLock::new(|| read_grid((sys::GGML_TYPE_IQ2_XXS, Iq2Xxs::BYTES), (2, 3), EIGHT, |w| w));
static IQ2_XS: LazyLock<[u64; 512]> =
    LazyLock::new(|| read_grid((sys::GGML_TYPE_IQ2_XS, Iq2Xs::BYTES), (2, 3), EIGHT, |w| w));
static IQ2_S: LazyLock<[u64; 1024]> =
    LazyLock::new(|| read_grid((sys::GGML_TYPE_IQ2_S, Iq2S::BYTES), (2, 66), EIGHT, |w| w));
/// Of this and the next, the low four bytes are an entry.
static IQ3_XXS: LazyLock<[u64; 256]> =
    LazyLock::new(|| read_grid((sys::GGML_TYPE_IQ3_XXS, Iq3Xxs::BYTES), (2, 4), FOUR, |w| w));
static IQ3_S: LazyLock<[u64; 512]> =
    LazyLock::new(|| read_grid((sys::GGML_TYPE_IQ3_S, Iq3S::BYTES), (2, 66), ONE, |w| w));

/// The same byte in all bytes.
pub(super) const fn four(byte: u8) -> i32 {
    i32::from_ne_bytes([byte; 4])
}

/// 16 · N bytes of each row's block from byte `at` on, four to a lane.
#[inline(always)]
pub(super) unsafe fn words<L: Lanes, const N: usize>(rows: &Rows, at: usize) -> [[L::Ints; 4]; N] {
    from_fn(|i| unsafe { L::transposed(rows.first.add(at + 16 * i), rows.stride) })
}

/// The four bytes of each lane.
#[inline(always)]
pub(super) unsafe fn split<L: Lanes>(x: L::Ints) -> [L::Ints; 4] {
    from_fn(|j| unsafe { L::right(L::left(x, 24 - 8 * j), 24) })
}

/// Byte `c` of 8 that are in two lanes.
#[inline(always)]
unsafe fn byte<L: Lanes>(two: [L::Ints; 2], c: usize) -> L::Ints {
    unsafe { split::<L>(two[c / 4])[c % 4] }
}

/// Numbers whose low 8 bits are `low`. Each takes its others from `high`: the first from the lowest `bits` of it, and so on.
#[inline(always)]
pub(super) unsafe fn with_high<L: Lanes, const N: usize>(
    bits: usize,
    low: [L::Ints; N],
    high: L::Ints,
) -> [L::Ints; N] {
    unsafe {
        let mut high = L::left(high, 8);
        let mask = L::splat(((1 << bits) - 1) << 8);
        low.map(|low| {
            let number = L::or(low, L::and(high, mask));
            high = L::right(high, bits);
            number
        })
    }
}

/// Looks up the entries with these numbers. Each entry has 32 / `M` weights.
#[inline(always)]
pub(super) unsafe fn entries<L: Lanes, const N: usize, const M: usize>(
    grid: &[u64; N],
    numbers: [L::Ints; M],
) -> [L::Ints; 8] {
    let mut found = MaybeUninit::<[[u32; TILE]; 8]>::uninit();
    let found = found.as_mut_ptr().cast::<[u32; TILE]>();
    unsafe {
        for (i, numbers) in numbers.into_iter().enumerate() {
            let numbers = L::lanes(L::as_floats(numbers)).map(f32::to_bits);
            for row in 0..L::ROWS {
                let entry = grid[numbers[row] as usize % N];
                for part in 0..8 / M {
                    (*found.add(8 / M * i + part))[row] = (entry >> (32 * part)) as u32;
                }
            }
        }
        from_fn(|j| L::as_ints(L::load_floats((*found.add(j)).as_ptr().cast())))
    }
}

/// Negates the weights whose bit of `signs` is set, and adds the bias to all.
#[inline(always)]
unsafe fn signed<L: Lanes>(weights: [L::Ints; 8], signs: L::Ints) -> [L::Ints; 8] {
    /// All ones for each power of two.
    const SET: [u8; 16] = [0, 255, 255, 0, 255, 0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 0];
    unsafe {
        let each = L::splat(0x0804_0201);
        // -x is the complement of x, and one more.
        let (bias, ones) = (L::splat(four(1 << BIAS) + 1), L::splat(-1));
        let signs = split::<L>(signs).map(|byte| {
            let two = L::or(byte, L::left(byte, 8));
            L::or(two, L::left(two, 16))
        });
        from_fn(|j| {
            let bits = if j % 2 == 0 { signs[j / 2] } else { L::right(signs[j / 2], 4) };
            let negative = L::and(weights[j], L::look_up(&SET, L::and(bits, each)));
            let less = L::xor(L::left(negative, 1), ones);
            L::add_ints(L::add_ints(weights[j], bias), less)
        })
    }
}

/// Four bytes of seven signs, with an eighth each that makes the number of those set even.
#[inline(always)]
unsafe fn even<L: Lanes>(sevens: L::Ints) -> L::Ints {
    unsafe {
        let four = L::xor(sevens, L::right(sevens, 4));
        let two = L::xor(four, L::right(four, 2));
        let odd = L::xor(two, L::right(two, 1));
        L::or(sevens, L::left(L::and(odd, L::bytes(1)), 7))
    }
}

/// The low 28 bits as four bytes of seven.
#[inline(always)]
unsafe fn sevens<L: Lanes>(x: L::Ints) -> L::Ints {
    unsafe {
        let seven = |x, at: i32| L::and(x, L::splat(127 << at));
        let low = L::or(seven(x, 0), seven(L::left(x, 1), 8));
        L::or(low, L::or(seven(L::left(x, 2), 16), seven(L::left(x, 3), 24)))
    }
}

/// 2x + 1 of some bits.
#[inline(always)]
pub(super) unsafe fn odd<L: Lanes>(x: L::Ints, mask: i32) -> L::Ints {
    unsafe { L::or(L::left(L::and(x, L::splat(mask)), 1), L::splat(1)) }
}

/// Writes the block's scale: an f16 at byte `at` of each row's block, times `unit`.
#[inline(always)]
pub(super) unsafe fn scale<L: Lanes>(rows: &Rows, at: usize, unit: f32, to: *mut Scales<L>) {
    unsafe {
        let scale = halves::<L>(rows.first.add(at), rows.stride);
        (*to).scale = L::mul(scale, L::splat_float(unit));
    }
}

/// Writes the scales of groups of 16, two to a byte.
#[inline(always)]
unsafe fn nibble_scales<L: Lanes>(bytes: [L::Ints; 2], to: *mut Scales<L>) {
    unsafe {
        for c in (0..CHUNKS).step_by(2) {
            let [a, b] = [byte::<L>(bytes, c), byte::<L>(bytes, c + 1)];
            let scales = [a, L::right(a, 4), b, L::right(b, 4)].map(|x| odd::<L>(x, 15));
            Scales::<L>::biased(to, BIAS, c..c + 2, scales);
        }
    }
}

/// Takes the chunks of a type that has 28 signs and four bits of a scale for each. `unit`: see [`scale`].
#[inline(always)]
unsafe fn take_even<B: SuperBlock, L: Lanes>(
    rows: &Rows,
    (weights, signs, unit): (impl Fn(usize) -> [L::Ints; 8], [L::Ints; CHUNKS], f32),
    to: &mut impl Take<L, Scales<L>>,
) {
    unsafe {
        scale::<L>(rows, 0, unit, to.scales());
        Scales::<L>::whole(to.scales(), BIAS, signs.map(|x| odd::<L>(L::right(x, 28), 15)));
        for (c, signs) in signs.into_iter().enumerate() {
            fetch::<B, L>(rows, c..c + 1);
            to.take(c, signed::<L>(weights(c), even::<L>(sevens::<L>(signs))));
        }
    }
}

pub(super) struct Iq2Xxs;

impl SuperBlock for Iq2Xxs {
    const BYTES: usize = 66;
    const GROUP: usize = 32;
    const MOST: i32 = MOST;

    #[inline(always)]
    unsafe fn unpack<L: Lanes>(rows: &Rows, to: &mut impl Take<L, Scales<L>>) {
        unsafe {
            let words = words::<L, 4>(rows, 2);
            let weights = |c: usize| entries::<L, _, _>(&IQ2_XXS, split::<L>(words[c / 2][c % 2 * 2]));
            let signs = from_fn(|c| words[c / 2][c % 2 * 2 + 1]);
            take_even::<Self, L>(rows, (weights, signs, 0.125), to);
        }
    }
}

pub(super) struct Iq2Xs;

impl SuperBlock for Iq2Xs {
    const BYTES: usize = 74;
    const GROUP: usize = 16;
    const MOST: i32 = MOST;

    #[inline(always)]
    unsafe fn unpack<L: Lanes>(rows: &Rows, to: &mut impl Take<L, Scales<L>>) {
        unsafe {
            let words = words::<L, 4>(rows, 2);
            let [.., a, b] = L::transposed(rows.first.add(58), rows.stride);
            scale::<L>(rows, 0, 0.125, to.scales());
            nibble_scales::<L>([a, b], to.scales());
            for c in 0..CHUNKS {
                fetch::<Self, L>(rows, c..c + 1);
                // 9 bits of a number and 7 signs in 16.
                let [a, b] = [words[c / 2][c % 2 * 2], words[c / 2][c % 2 * 2 + 1]];
                let numbers = [a, L::right(a, 16), b, L::right(b, 16)];
                let pair = |x| {
                    let low = L::and(L::right(x, 9), L::splat(127));
                    L::or(low, L::left(L::right(x, 25), 8))
                };
                let weights = entries::<L, _, _>(&IQ2_XS, numbers);
                let signs = L::or(pair(a), L::left(pair(b), 16));
                to.take(c, signed::<L>(weights, even::<L>(signs)));
            }
        }
    }
}

pub(super) struct Iq2S;

impl SuperBlock for Iq2S {
    const BYTES: usize = 82;
    const GROUP: usize = 16;
    const MOST: i32 = MOST;

    #[inline(always)]
    unsafe fn unpack<L: Lanes>(rows: &Rows, to: &mut impl Take<L, Scales<L>>) {
        unsafe {
            let (low, signs) = (words::<L, 2>(rows, 2), words::<L, 2>(rows, 34));
            let [first, second, a, b] = L::transposed(rows.first.add(66), rows.stride);
            scale::<L>(rows, 0, 0.125, to.scales());
            nibble_scales::<L>([a, b], to.scales());
            for c in 0..CHUNKS {
                fetch::<Self, L>(rows, c..c + 1);
                let high = byte::<L>([first, second], c);
                let numbers = with_high::<L, _>(2, split::<L>(low[c / 4][c % 4]), high);
                to.take(c, signed::<L>(entries::<L, _, _>(&IQ2_S, numbers), signs[c / 4][c % 4]));
            }
        }
    }
}

/// The bytes of two lanes.
#[inline(always)]
unsafe fn split_two<L: Lanes>(a: L::Ints, b: L::Ints) -> [L::Ints; 8] {
    let both = unsafe { [split::<L>(a), split::<L>(b)] };
    from_fn(|i| both[i / 4][i % 4])
}

pub(super) struct Iq3Xxs;

impl SuperBlock for Iq3Xxs {
    const BYTES: usize = 98;
    const GROUP: usize = 32;
    const MOST: i32 = MOST;

    #[inline(always)]
    unsafe fn unpack<L: Lanes>(rows: &Rows, to: &mut impl Take<L, Scales<L>>) {
        unsafe {
            let (words, signs) = (words::<L, 4>(rows, 2), words::<L, 2>(rows, 66));
            let weights = |c: usize| {
                entries::<L, _, _>(
                    &IQ3_XXS,
                    split_two::<L>(words[c / 2][c % 2 * 2], words[c / 2][c % 2 * 2 + 1]),
                )
            };
            take_even::<Self, L>(rows, (weights, from_fn(|c| signs[c / 4][c % 4]), 0.25), to);
        }
    }
}

pub(super) struct Iq3S;

impl SuperBlock for Iq3S {
    const BYTES: usize = 110;
    const GROUP: usize = 32;
    const MOST: i32 = MOST;

    #[inline(always)]
    unsafe fn unpack<L: Lanes>(rows: &Rows, to: &mut impl Take<L, Scales<L>>) {
        unsafe {
            let words = words::<L, 4>(rows, 2);
            let [first, second, s0, s1] = L::transposed(rows.first.add(66), rows.stride);
            let [s2, s3, s4, s5] = L::transposed(rows.first.add(82), rows.stride);
            let [_, s6, s7, scales] = L::transposed(rows.first.add(94), rows.stride);
            scale::<L>(rows, 0, 1.0, to.scales());
            let [a, b, c, d] = split::<L>(scales).map(|x| [odd::<L>(x, 15), odd::<L>(L::right(x, 4), 15)]);
            Scales::<L>::whole(to.scales(), BIAS, [a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]]);
            for (c, signs) in [s0, s1, s2, s3, s4, s5, s6, s7].into_iter().enumerate() {
                fetch::<Self, L>(rows, c..c + 1);
                let low = split_two::<L>(words[c / 2][c % 2 * 2], words[c / 2][c % 2 * 2 + 1]);
                let numbers = with_high::<L, _>(1, low, byte::<L>([first, second], c));
                to.take(c, signed::<L>(entries::<L, _, _>(&IQ3_S, numbers), signs));
            }
        }
    }
}
