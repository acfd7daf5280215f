//! Documents that references may lead to: those of the configuration, and the metaschemas of the drafts.

use crate::config::GrammarConfig;
use crate::error::{Error, Result};
use ahash::AHashMap;
use referencing::SPECIFICATIONS;
use serde_json::Value;
use std::path::Path;

const KEY: &str = "grammar.documents";

/// Schemas by the URI under which they are referred to.
#[derive(Debug, Default)]
pub(crate) struct Library(AHashMap<String, Value>);

impl Library {
    /// Reads the files that the configuration names.
    ///
    /// # Errors
    /// `Error::Invalid` naming the key where one cannot be read, or is no schema.
    pub(crate) fn open(config: &GrammarConfig) -> Result<Self> {
        let read = |(uri, path): (&String, &String)| {
            let wrong = |why: String| Error::invalid(KEY, format!("{uri}: {path} {why}"));
            if uri.contains('#') {
                return Err(Error::invalid(KEY, format!("{uri}: leave out what begins with #")));
            }
            let text = std::fs::read(Path::new(path)).map_err(|e| wrong(format!("cannot be read: {e}")))?;
            let schema = serde_json::from_slice(&text).map_err(|e| wrong(format!("is not JSON: {e}")))?;
            match schema {
                Value::Bool(_) | Value::Object(_) => Ok((uri.clone(), schema)),
                _ => Err(wrong("is no schema: that is an object or a boolean".into())),
            }
        };
        config.documents.iter().map(read).collect::<Result<_>>().map(Library)
    }

    /// The document of an absolute URI without fragment.
    pub(super) fn get(&self, uri: &str) -> Option<&Value> {
        let metaschema = || Some(SPECIFICATIONS.try_resolver(uri).ok()?.lookup("#").ok()?.contents());
        self.0.get(uri).or_else(metaschema)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(uri: &str, path: &str) -> String {
        let documents = [(uri.to_owned(), path.to_owned())].into();
        Library::open(&GrammarConfig { documents, ..Default::default() }).unwrap_err().to_string()
    }

    #[test]
    fn files_that_are_no_schemas_are_refused_by_uri_and_path() {
        let root = env!("CARGO_MANIFEST_DIR");
        for (path, why) in [("no/such/file", "cannot be read"), ("Cargo.toml", "is not JSON")] {
            let told = refused("http://h/a.json", &format!("{root}/{path}"));
            assert!(told.contains(KEY) && told.contains("http://h/a.json") && told.contains(path), "{told}");
            assert!(told.contains(why), "{told}");
        }
        assert!(refused("http://h/a.json#/b", "Cargo.toml").contains("leave out"));
    }

    #[test]
    fn metaschemas_are_there_and_nothing_else() {
        let library = Library::default();
        for draft in
            ["http://json-schema.org/draft-04/schema", "https://json-schema.org/draft/2020-12/meta/core"]
        {
            assert!(library.get(draft).is_some_and(Value::is_object), "{draft}");
        }
        for other in ["http://h/a.json", "no uri", "", "json-schema:///"] {
            assert!(library.get(other).is_none(), "{other}");
        }
    }
}
