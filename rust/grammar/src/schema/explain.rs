//! Finds the place where a schema that nothing satisfies says so.

use super::arena::{Arena, Id, ROOT};
use super::read::Reader;
use super::refuse;
use super::write::Writer;
use crate::error::Error;
use ahash::AHashSet;

const WHY: &str = "nothing satisfies it";
const WHY_LESS: &str = "nothing satisfies what can be enforced of it";

/// The refusal of a document that nothing satisfies: it names the smallest schema inside that nothing satisfies, and the
/// keyword without which something would. `notes`: so many were there before the document was looked at.
pub(super) fn unsatisfiable(reader: &Reader<'_>, notes: usize) -> Error {
    let arena = reader.arena;
    let is_empty = |id, without| {
        let mut reader = Reader::new(arena, reader.config, reader.setting);
        reader.without = without;
        let term = reader.schema(id, 0);
        let mut writer = Writer::new(&mut reader, None);
        // What cannot be written has another fault.
        writer.write(term).is_ok() && !writer.is_satisfiable()
    };
    let (mut at, mut been) = (ROOT, AHashSet::from([ROOT]));
    while let Some(next) = inside(arena, at).into_iter().find(|id| been.insert(*id) && is_empty(*id, None)) {
        at = next;
    }
    // Something may satisfy it that cannot be said.
    arena.budget.take_notes(notes);
    is_empty(at, None);
    let left_out = arena.budget.take_notes(notes).into_iter().next();
    let why = left_out.map_or(WHY.to_owned(), |narrowed| format!("{WHY_LESS}: {}", narrowed.reason));
    let Some(map) = arena[at].value.as_object() else { return refuse(&arena[at].pointer, "schema", why) };
    // Without its type, much is satisfied that has another fault.
    let keys = map.keys().filter(|k| *k != "type").chain(map.keys().filter(|k| *k == "type"));
    let keyword = keys.map(String::as_str).find(|k| !is_empty(at, Some((at, k))));
    refuse(&arena[at].pointer, keyword.unwrap_or("schema"), why)
}

/// The schemas that this one needs, as far as one can tell; what is `false` may be optional.
fn inside(arena: &Arena<'_>, id: Id) -> Vec<Id> {
    let used = ["allOf", "anyOf", "oneOf", "properties", "prefixItems", "items", "then", "else", "$ref"];
    let mut list: Vec<Id> = used.iter().flat_map(|k| arena.inside(id, k)).map(|(_, part)| *part).collect();
    list.retain(|id| arena[*id].value.is_object());
    list
}
