//! How byte-level vocabularies of GGUF files cut text before merging, by the name in `tokenizer.ggml.pre`.
//!
//! The facts are llama.cpp's (`llama-vocab.cpp`), which differ here and there from a model's `tokenizer.json`: its
//! `\p{Lu}`, `\p{Ll}`, … mean any letter, and classes of its wide-character expressions never hold white space.

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pre {
    /// Each cuts the pieces that the one before left; matches and what is between them become pieces.
    pub(super) cuts: &'static [&'static str],
    /// A piece that is a token needs no merges.
    pub(super) ignore_merges: bool,
    /// The begin token goes before a prompt unless the file says otherwise.
    pub(super) add_bos: bool,
}

/// Words, digits, signs with the line ends after them, line ends, white space.
macro_rules! words {
    ($digits:literal) => {
        concat!(
            r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|",
            $digits,
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        )
    };
}

/// Words cut where upper case follows lower case; `$letter` is what counts as a letter.
macro_rules! cased {
    ($letter:literal, $contraction:literal, $digits:literal) => {
        concat!(
            r"[^\r\n\p{L}\p{N}]?(?:(?=",
            $letter,
            r")[^a-z])*(?:(?=",
            $letter,
            r")[^A-Z])+",
            $contraction,
            r"|[^\r\n\p{L}\p{N}]?(?:(?=",
            $letter,
            r")[^a-z])+(?:(?=",
            $letter,
            r")[^A-Z])*",
            $contraction,
            r"|",
            $digits,
            r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        )
    };
}

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)";
const ONE_DIGIT: &str = r"\p{N}";
const THREE_DIGITS: &str = r"\p{N}{1,3}";
const KANA_AND_HAN: &str = r"[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+";
const EAST_ASIAN: &str = r"[\u{800}-\u{9fa5}\u{ac00}-\u{d7ff}&&[^\s]]+";
const FULL_WIDTH_SIGNS: &str = r"\s?[!-/:-~！-／：-～‘-‟、-。]+";
const DEEPSEEK3: &str = concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const SPARK: &str = concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
    r"| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"
);
const SENTENCES: &str = r" ?[^(\s|.,!?…。，、।۔،)]+";
/// Letters of scripts with two cases, as of the Unicode version that DeepSeek used.
const CASED_LETTERS: &str = concat!(
    r"\s?[",
    r"A-Za-z\u{b5}\u{c0}-\u{d6}\u{d8}-\u{f6}\u{f8}-\u{1ba}\u{1bc}-\u{1bf}\u{1c4}-\u{293}",
    r"\u{295}-\u{2af}\u{370}-\u{373}\u{376}\u{377}\u{37b}-\u{37d}\u{37f}\u{386}\u{388}-\u{38a}",
    r"\u{38c}\u{38e}-\u{3a1}\u{3a3}-\u{3f5}\u{3f7}-\u{481}\u{48a}-\u{52f}\u{531}-\u{556}",
    r"\u{10a0}-\u{10c5}\u{13a0}-\u{13f5}\u{13f8}-\u{13fd}\u{1c90}-\u{1cba}\u{1cbd}-\u{1cbf}",
    r"\u{1d00}-\u{1d2b}\u{1d6b}-\u{1d77}\u{1d79}-\u{1d9a}\u{1e00}-\u{1f15}\u{1f18}-\u{1f1d}",
    r"\u{1f20}-\u{1f45}\u{1f48}-\u{1f4d}\u{1f50}-\u{1f57}\u{1f59}\u{1f5b}\u{1f5d}",
    r"\u{1f5f}-\u{1f7d}\u{1f80}-\u{1fb4}\u{1fb6}-\u{1fbc}\u{1fbe}\u{1fc2}-\u{1fc4}",
    r"\u{1fc6}-\u{1fcc}\u{1fd0}-\u{1fd3}\u{1fd6}-\u{1fdb}\u{1fe0}-\u{1fec}\u{1ff2}-\u{1ff4}",
    r"\u{1ff6}-\u{1ffc}\u{2102}\u{2107}\u{210a}-\u{2113}\u{2115}\u{2119}-\u{211d}\u{2124}",
    r"\u{2126}\u{2128}\u{212a}-\u{212d}\u{212f}-\u{2134}\u{2139}\u{213c}-\u{213f}",
    r"\u{2145}-\u{2149}\u{214e}\u{2183}\u{2184}\u{2c00}-\u{2c7b}\u{2c7e}-\u{2ce4}",
    r"\u{2ceb}-\u{2cee}\u{2cf2}\u{2cf3}\u{a640}-\u{a66d}\u{a680}-\u{a69b}\u{a722}-\u{a76f}",
    r"\u{a771}-\u{a787}\u{a78b}-\u{a78e}\u{ab70}-\u{abbf}\u{fb00}-\u{fb06}\u{fb13}-\u{fb17}",
    r"\u{ff21}-\u{ff3a}\u{ff41}-\u{ff5a}\u{10400}-\u{1044f}\u{104b0}-\u{104d3}",
    r"\u{104d8}-\u{104fb}\u{10c80}-\u{10cb2}\u{10cc0}-\u{10cf2}\u{118a0}-\u{118df}",
    r"\u{1e900}-\u{1e943}",
    r"]+",
);

/// The expression with the categories as of Unicode 15.1, which llama.cpp's tables have; ours are newer.
pub(super) fn expression(cut: &str) -> String {
    ["L", "N", "P", "S", "M"].iter().fold(cut.to_owned(), |cut, category| {
        cut.replace(&format!(r"\p{{{category}}}"), &format!(r"[\p{{{category}}}&&\p{{Age=15.1}}]"))
    })
}

/// None for a name that this module does not know.
pub(super) fn of(name: &str) -> Option<Pre> {
    let add_bos = matches!(name, "tekken" | "chameleon") || is_llama3(name);
    let ignore_merges =
        matches!(name, "minicpm5" | "youtu" | "glm4" | "glm5" | "tekken" | "granite-embed-multi-97m");
    Some(Pre { cuts: cuts(name)?, ignore_merges: ignore_merges || is_llama3(name), add_bos })
}

fn is_llama3(name: &str) -> bool {
    let names = [
        "llama3",
        "llama-v3",
        "llama-bpe",
        "falcon3",
        "falcon-h1",
        "pixtral",
        "midm-2.0",
        "lfm2",
        "jina-v5-nano",
    ];
    names.contains(&name)
}

fn cuts(name: &str) -> Option<&'static [&'static str]> {
    let cuts: &'static [&'static str] = match name {
        name if is_llama3(name) => &[words!(r"\p{N}{1,3}")],
        "dbrx" | "smaug-bpe" | "chatglm-bpe" | "glm4" | "glm5" => &[words!(r"\p{N}{1,3}")],
        "qwen2" | "deepseek-r1-qwen" | "kormo" | "f2llmv2" | "stablelm2" | "hunyuan" | "solar-open"
        | "megrez" | "grok-2" => &[words!(r"\p{N}")],
        "minicpm5" => &[THREE_DIGITS, words!(r"\p{N}+")],
        "laguna" => &[r"[^\n]+|[\n]+", words!(r"\p{N}")],
        "gpt-2" | "phi-2" | "jina-es" | "jina-de" | "gigachat" | "jina-v2-es" | "jina-v2-de" | "a.x-4.0"
        | "mellum" | "modern-bert" | "mpt" | "olmo" | "jais" | "trillion" | "granite-docling" | "exaone4"
        | "jina-v1-en" | "jina-v2-code" | "roberta-bpe" => &[GPT2],
        "starcoder" | "refact" | "command-r" | "smollm" | "codeshell" | "exaone" | "minerva-7b"
        | "mellum2" => &[ONE_DIGIT, GPT2],
        "falcon" => &[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
        "" | "default" => &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
        "gpt-4o" | "llama4" | "kanana2" | "talkie" | "minimax-m2" => {
            &[cased!(r"\p{L}", r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?", r"\p{N}{1,3}")]
        }
        "granite-embed-multi-97m" => &[cased!(
            r"[\p{L}\p{M}]",
            r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?",
            r"\p{N}{1,3}"
        )],
        "tekken" => &[cased!(r"\p{L}", "", r"\p{N}")],
        "deepseek-v3" | "hunyuan-dense" | "joyai-llm" | "hy_v4" => &[THREE_DIGITS, KANA_AND_HAN, DEEPSEEK3],
        "deepseek-llm" => &["[\r\n]", CASED_LETTERS, FULL_WIDTH_SIGNS, r"\s+$", EAST_ASIAN, r"\p{N}+"],
        "deepseek-coder" => &["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EAST_ASIAN, ONE_DIGIT],
        "viking" => &[SENTENCES, ONE_DIGIT],
        "poro-chat" | "bloom" | "gpt3-finnish" => &[SENTENCES],
        name => return other_cuts(name),
    };
    Some(cuts)
}

/// Names whose expression no other name shares.
fn other_cuts(name: &str) -> Option<&'static [&'static str]> {
    let cuts: &'static [&'static str] = match name {
        "qwen35" => &[
            r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        "ufakzeka" => &[r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
        "seed-coder" => &[
            r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        "bailingmoe" | "bailingmoe2" | "llada-moe" => &[
            r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
        ],
        "exaone-moe" => &[
            r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
        ],
        "jais-2" => &[
            r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}",
        ],
        "chameleon" => &[
            "<sentinel:[0-9]+>",
            "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
            "([\\t\\n]|    |  )",
            ONE_DIGIT,
            r"[\p{P}!-/:-@\[-`{-~]",
            GPT2,
        ],
        "spark2_5" => &[THREE_DIGITS, KANA_AND_HAN, SPARK, ONE_DIGIT],
        "youtu" => &[
            r"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+",
            r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]*[\p{L}\p{M}]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+[\p{L}\p{M}]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        _ => return None,
    };
    Some(cuts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 30] = [
        "",
        "llama-bpe",
        "qwen2",
        "glm4",
        "minicpm5",
        "laguna",
        "gpt-2",
        "smollm",
        "falcon",
        "default",
        "gpt-4o",
        "granite-embed-multi-97m",
        "tekken",
        "deepseek-v3",
        "deepseek-llm",
        "deepseek-coder",
        "viking",
        "bloom",
        "qwen35",
        "ufakzeka",
        "seed-coder",
        "bailingmoe",
        "exaone-moe",
        "jais-2",
        "chameleon",
        "spark2_5",
        "youtu",
        "lfm2",
        "command-r",
        "hy_v4",
    ];

    #[test]
    fn every_expression_compiles() {
        for name in NAMES {
            for cut in of(name).unwrap().cuts {
                assert!(tokenizers::utils::SysRegex::new(&expression(cut)).is_ok(), "{name}: {cut}");
            }
        }
    }

    #[test]
    fn new_letters_are_no_letters() {
        let found = |text: &str| {
            let regex = tokenizers::utils::SysRegex::new(&expression(r"\p{L}+|[^\s\p{L}\p{N}]+")).unwrap();
            regex.find_iter(text).map(|(start, end)| text[start..end].to_owned()).collect::<Vec<_>>()
        };
        // U+1C89 came with Unicode 16, U+2EBF0 with 15.1.
        assert_eq!(found("a\u{1c89}é\u{2ebf0} 1"), ["a", "\u{1c89}", "é\u{2ebf0}"]);
    }

    #[test]
    fn unknown_names_are_unknown() {
        assert_eq!(["kimi-k2", "superbpe", "afmoe", "nonsense"].map(of), [None; 4]);
    }
}
