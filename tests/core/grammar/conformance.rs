//! MaskBench's schemas and the JSON-Schema-Test-Suite, against a committed file with one line per schema.
//!
//! `LLGTRT_BLESS=1` writes the files anew; a change is then a diff to look at, and `bench/coverage.py` writes the page about
//! it. A line says `ok`, or what is refused and where, or where it is that nothing satisfies, or how many instances are rejected
//! though valid (required keys must come in the order of the schema, for example) or accepted though invalid, which must not
//! be. Instances are compact JSON in their own order of keys.

use super::common::{Bench, by_the_letter, data};
use super::plain::{Plain, Verdict};
use llgtrt::config::{Formats, GrammarConfig};
use llgtrt::error::Error;
use llgtrt::grammar::{Grammar, GrammarSpec};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Optional parts of the suite in which invalid instances are accepted, as the suite allows: encoded content is not looked
/// into.
const LENIENT: [&str; 1] = ["optional/content "];

/// Unknown formats are refused unless the configuration says otherwise, also where the suite wants them ignored.
const EXCUSED: [&str; 1] = ["optional/format/unknown 0 unknown format"];

/// The file for all of MaskBench, which tells only of schemas that are not enforced as they are.
const WHOLE: &str = "maskbench-whole.txt";

/// Texts that are tried to find an order of an instance's keys.
const TRIES: usize = 20_000;

/// Files by URI.
type Documents = BTreeMap<String, String>;

struct Case {
    id: String,
    schema: Value,
    /// Whether formats are annotations there.
    annotates: bool,
    /// Instances, and whether they are valid.
    tests: Vec<(Value, bool)>,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Line {
    refused: Option<String>,
    /// Refused as what nothing satisfies, of which no instance is valid.
    empty: bool,
    /// Valid instances that are accepted once their keys are in the order of the schema.
    reordered: usize,
    rejects_valid: usize,
    accepts_invalid: usize,
}

impl Line {
    fn text(&self, id: &str) -> String {
        let mut line = format!("{id}:");
        if let Some(refused) = &self.refused {
            return line + if self.empty { " nothing satisfies " } else { " refused " } + refused;
        }
        let counts = [
            (self.reordered, "reordered"),
            (self.rejects_valid, "rejects-valid"),
            (self.accepts_invalid, "accepts-invalid"),
        ];
        for (n, what) in counts {
            if n > 0 {
                write!(line, " {what}={n}").unwrap();
            }
        }
        if line.ends_with(':') { line + " ok" } else { line }
    }
}

fn judge(bench: &Bench, case: &Case) -> Line {
    let mut line = Line::default();
    let pristine = match bench.compile(&GrammarSpec::JsonSchema(case.schema.to_string())) {
        Ok(grammar) => grammar,
        Err(Error::Grammar { pointer, keyword, why }) => {
            let empty = why.starts_with("nothing satisfies it") && case.tests.iter().all(|(_, valid)| !valid);
            return Line { refused: Some(format!("{keyword} at \"{pointer}\"")), empty, ..line };
        }
        Err(Error::Invalid { code, .. }) if code.as_deref() == Some("grammar_too_complex") => {
            return Line { refused: Some("too complex".into()), ..line };
        }
        Err(other) => panic!("{}: {other}", case.id),
    };
    let mut places = Places::new();
    names(&case.schema, &mut places);
    for (instance, valid) in &case.tests {
        // A limit that is hit on the way refuses the text as well.
        let accepted = bench.accepts(&mut pristine.restart(), &instance.to_string()).unwrap_or(false);
        if *valid && !accepted {
            let ordered = Ordering::new(bench, &places).finds(&pristine, instance);
            line.reordered += usize::from(ordered);
            line.rejects_valid += usize::from(!ordered);
        }
        line.accepts_invalid += usize::from(!*valid && accepted);
    }
    line
}

/// The names of properties in the order in which the document first describes them, then those that it only requires.
fn names(schema: &Value, order: &mut Places) {
    fn collect(schema: &Value, keyword: &str, order: &mut Places) {
        let mut add = |name: &str| {
            let place = order.len();
            order.entry(name.to_owned()).or_insert(place);
        };
        match schema {
            Value::Object(map) => {
                for (key, value) in map {
                    match value {
                        Value::Object(inner) if key == keyword => inner.keys().for_each(|name| add(name)),
                        Value::Array(list) if key == keyword => {
                            list.iter().filter_map(Value::as_str).for_each(&mut add);
                        }
                        _ => {}
                    }
                }
                map.values().for_each(|value| collect(value, keyword, order));
            }
            Value::Array(list) => list.iter().for_each(|value| collect(value, keyword, order)),
            _ => {}
        }
    }
    ["properties", "required", "dependentRequired", "dependencies", "const", "enum"]
        .iter()
        .for_each(|keyword| collect(schema, keyword, order));
}

/// Names are tried in this order.
type Places = HashMap<String, usize>;

/// Looks for an order of all keys in which a grammar accepts a value.
struct Ordering<'a> {
    bench: &'a Bench,
    places: &'a Places,
    /// Texts that may still be tried.
    left: usize,
    /// Whether all orders are tried, or only those in which a key that had no place comes sooner.
    all: bool,
    /// The object and the key that had none.
    stuck: Option<(*const Map, String)>,
}

type Map = serde_json::Map<String, Value>;
/// What comes behind a value: whether the rest is accepted, too.
type Rest<'a, 'b> = &'a mut dyn FnMut(&mut Ordering<'b>, Grammar) -> bool;

impl<'b> Ordering<'b> {
    fn new(bench: &'b Bench, places: &'b Places) -> Self {
        Ordering { bench, places, left: TRIES, all: false, stuck: None }
    }

    /// Whether there is one.
    fn finds(&mut self, pristine: &Grammar, value: &Value) -> bool {
        [false, true].into_iter().any(|all| {
            (self.all, self.stuck) = (all, None);
            let ends = &mut |own: &mut Self, mut grammar| own.bench.may_end(&mut grammar).unwrap_or(false);
            self.value(pristine.restart(), value, ends)
        })
    }

    /// Whether the value, and the rest behind it, is accepted in some order.
    fn value(&mut self, grammar: Grammar, value: &Value, rest: Rest<'_, 'b>) -> bool {
        match value {
            Value::Object(map) => {
                let mut members: Vec<_> = map.iter().collect();
                members.sort_by_key(|(name, _)| self.places.get(*name).copied().unwrap_or(usize::MAX));
                self.text(grammar, "{").is_some_and(|begun| self.members((begun, map), &members, "", rest))
            }
            Value::Array(items) => {
                self.text(grammar, "[").is_some_and(|begun| self.items(begun, items, "", rest))
            }
            other => self.text(grammar, &other.to_string()).is_some_and(|behind| rest(self, behind)),
        }
    }

    fn items(&mut self, grammar: Grammar, items: &[Value], comma: &str, rest: Rest<'_, 'b>) -> bool {
        let Some((first, others)) = items.split_first() else {
            return self.text(grammar, "]").is_some_and(|behind| rest(self, behind));
        };
        let Some(begun) = self.text(grammar, comma) else { return false };
        self.value(begun, first, &mut |own, behind| own.items(behind, others, ",", &mut *rest))
    }

    fn members(
        &mut self,
        (grammar, object): (Grammar, *const Map),
        members: &[(&String, &Value)],
        comma: &str,
        rest: Rest<'_, 'b>,
    ) -> bool {
        let Some(&(mut last, _)) = members.first() else {
            return self.text(grammar, "}").is_some_and(|behind| rest(self, behind));
        };
        let (mut tried, mut next) = (vec![false; members.len()], 0..members.len());
        while let Some(i) = next.next() {
            tried[i] = true;
            let mut others = members.to_vec();
            let (name, value) = others.remove(i);
            let begin = format!("{comma}{}:", Value::from(name.as_str()));
            let Some(begun) = self.text(grammar.fork(), &begin) else { continue };
            let more = &mut |own: &mut Self, behind| own.members((behind, object), &others, ",", &mut *rest);
            if self.value(begun, value, more) {
                return true;
            }
            if self.all {
                continue;
            }
            // Only what had no place behind this key is tried before it.
            let Some((_, stuck)) = self.stuck.take_if(|(of, _)| *of == object) else { return false };
            let Some(i) = members.iter().position(|(name, _)| **name == stuck) else { return false };
            (last, next) = (members[i].0, if tried[i] { 0..0 } else { i..i + 1 });
        }
        self.stuck = Some((object, last.clone()));
        false
    }

    /// The grammar behind this text, if it takes it.
    fn text(&mut self, mut grammar: Grammar, text: &str) -> Option<Grammar> {
        self.left = self.left.checked_sub(1)?;
        // A limit that is hit on the way refuses the text as well.
        self.bench.begins(&mut grammar, text).unwrap_or(false).then_some(grammar)
    }
}

/// All lines, in the order of the cases, and complaints about what llguidance alone does better.
fn run(cases: &[Case], documents: &Documents) -> (Vec<Line>, Vec<String>) {
    let next = AtomicUsize::new(0);
    let work = || {
        let key_order = GrammarConfig::default().key_order;
        let config = GrammarConfig { documents: documents.clone(), key_order, ..by_the_letter() };
        let bench = Bench::with(&config);
        let annotating = Bench::with(&GrammarConfig { formats: Formats::Annotate, ..config });
        let (plain, mut done) = (Plain::new(), Vec::new());
        loop {
            let i = next.fetch_add(1, Relaxed);
            let Some(case) = cases.get(i) else { return done };
            let line = judge(if case.annotates { &annotating } else { &bench }, case);
            let complaint = complain(&plain.judge(&case.schema, &case.tests), &line, &case.id);
            done.push((i, line, complaint));
        }
    };
    let mut all = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|_| std::thread::Builder::new().stack_size(256 << 20).spawn_scoped(scope, work).unwrap())
            .collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect::<Vec<_>>()
    });
    all.sort_by_key(|(i, ..)| *i);
    let complaints = all.iter().filter_map(|(_, _, c)| c.clone()).collect();
    (all.into_iter().map(|(_, line, _)| line).collect(), complaints)
}

/// Where llguidance as it comes gets all instances right that we refuse, or rejects fewer valid ones and lets no more through.
fn complain(plain: &Verdict, line: &Line, id: &str) -> Option<String> {
    let Verdict::Compiles { rejects_valid, accepts_invalid } = *plain else { return None };
    let better = match line.refused {
        Some(_) => rejects_valid == 0 && accepts_invalid == 0,
        None => line.rejects_valid > rejects_valid && line.accepts_invalid >= accepts_invalid,
    };
    better.then(|| format!("{}; plain: {rejects_valid}, {accepts_invalid}", line.text(id)))
}

fn compare(name: &str, cases: &[Case], documents: &Documents, excused: &[&str]) {
    let (lines, complaints) = run(cases, documents);
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/core/grammar/expected").join(name);
    let count = |f: &dyn Fn(&Line) -> bool| lines.iter().filter(|l| f(l)).count();
    let is_told = |line: &Line| {
        name != WHOLE || line.refused.is_some() || line.rejects_valid + line.accepts_invalid > 0
    };
    let told = cases.iter().zip(&lines).filter(|(_, line)| is_told(line));
    let mut text: String = told.map(|(case, line)| line.text(&case.id) + "\n").collect();
    if name == WHOLE {
        writeln!(text, "the other {}: ok", count(&|line| !is_told(line))).unwrap();
    }
    println!(
        "{name}: {} schemas; {} covered, {} refused, {} unsatisfiable, {} reject valid ({} instances), {} accept invalid",
        lines.len(),
        count(&|l| l.refused.is_none() && l.rejects_valid + l.accepts_invalid == 0),
        count(&|l| l.refused.is_some() && !l.empty),
        count(&|l| l.empty),
        count(&|l| l.rejects_valid > 0),
        lines.iter().map(|l| l.rejects_valid).sum::<usize>(),
        count(&|l| l.accepts_invalid > 0),
    );
    if std::env::var_os("LLGTRT_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let changed: Vec<String> = difference(&expected, &text);
    assert!(changed.is_empty(), "not as in {}:\n{}", path.display(), changed.join("\n"));
    let accepting: Vec<&String> = cases
        .iter()
        .zip(&lines)
        .filter(|(c, l)| l.accepts_invalid > 0 && !LENIENT.iter().any(|name| c.id.starts_with(name)))
        .map(|(c, _)| &c.id)
        .collect();
    assert!(accepting.is_empty(), "invalid instances are accepted: {accepting:?}");
    let complaints: Vec<&String> =
        complaints.iter().filter(|c| !excused.iter().any(|id| c.starts_with(&format!("{id}:")))).collect();
    assert!(complaints.is_empty(), "llguidance alone does better: {complaints:#?}");
}

fn difference(expected: &str, found: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), found.lines().collect());
    let missing = old.iter().filter(|l| !new.contains(l)).map(|l| format!("- {l}"));
    missing.chain(new.iter().filter(|l| !old.contains(l)).map(|l| format!("+ {l}"))).collect()
}

/// A schema of MaskBench.
fn case(id: &str, text: &str) -> Case {
    let mut case: Value = serde_json::from_str(text).unwrap();
    let tests = case["tests"].as_array().unwrap();
    let tests = tests.iter().map(|t| (t["data"].clone(), t["valid"].as_bool().unwrap())).collect();
    let id = case["id"].as_str().unwrap_or(id).to_owned();
    Case { id, schema: case["schema"].take(), annotates: false, tests }
}

#[test]
fn maskbench() {
    let Some(lines) = data("maskbench-dev.jsonl.gz") else { return };
    let cases: Vec<Case> = lines.lines().map(|line| case("", line)).collect();
    compare("maskbench.txt", &cases, &Documents::new(), &[]);
}

/// All of MaskBench: `LLGTRT_MASKBENCH=jsonschemabench/maskbench/data cargo test --release all_of_maskbench`, of a checkout of
/// guidance-ai/jsonschemabench. Takes some minutes.
#[test]
fn all_of_maskbench() {
    let Some(folder) = std::env::var_os("LLGTRT_MASKBENCH") else {
        return eprintln!("skipped: LLGTRT_MASKBENCH names no folder");
    };
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|e| e == "json")).collect();
    files.sort();
    let read = |file: &PathBuf| {
        case(file.file_stem().unwrap().to_str().unwrap(), &std::fs::read_to_string(file).unwrap())
    };
    let cases: Vec<Case> = files.iter().map(read).collect();
    // Longer than the default allows.
    let excused = ["Kubernetes---kb_1161_Normalized"];
    compare(WHOLE, &cases, &Documents::new(), &excused);
}

fn suite(draft: &str, schema_uri: &str) -> Option<(Vec<Case>, Documents)> {
    let all: Value = serde_json::from_str(&data("json-schema-test-suite.json.gz")?).unwrap();
    let mut cases = Vec::new();
    for (file, groups) in all[draft].as_object().unwrap() {
        for (i, group) in groups.as_array().unwrap().iter().enumerate() {
            let mut schema = group["schema"].clone();
            if let Some(map) = schema.as_object_mut().filter(|m| !m.contains_key("$schema")) {
                map.insert("$schema".into(), json!(schema_uri));
            }
            let tests = group["tests"].as_array().unwrap();
            let tests = tests.iter().map(|t| (t["data"].clone(), t["valid"].as_bool().unwrap())).collect();
            let id =
                format!("{} {i} {}", file.trim_end_matches(".json"), group["description"].as_str().unwrap());
            // The others of this draft say nothing of formats, and its optional ones ask for them.
            let annotates = draft == "draft2020-12" && file == "format.json";
            cases.push(Case { id, schema, annotates, tests });
        }
    }
    Some((cases, remotes(draft, &all["remotes"])))
}

/// The documents that the suite wants to be found on a web server.
fn remotes(draft: &str, all: &Value) -> Documents {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("remotes-{draft}"));
    let write = |(name, schema): (&String, &Value)| {
        let file = folder.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, schema.to_string()).unwrap();
        (format!("http://localhost:1234/{name}"), file.to_str().unwrap().to_owned())
    };
    all.as_object().unwrap().iter().map(write).collect()
}

#[test]
fn test_suite_2020_12() {
    if let Some((cases, remotes)) = suite("draft2020-12", "https://json-schema.org/draft/2020-12/schema") {
        compare("suite-2020-12.txt", &cases, &remotes, &EXCUSED);
    }
}

#[test]
fn test_suite_draft_7() {
    if let Some((cases, remotes)) = suite("draft7", "http://json-schema.org/draft-07/schema#") {
        compare("suite-draft7.txt", &cases, &remotes, &EXCUSED);
    }
}
