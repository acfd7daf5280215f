//! Tests of the tokenizer: published vocabularies and the demo's, against llama.cpp's own ids.

#[cfg(feature = "llama")]
mod damaged;
mod demo;
#[cfg(feature = "llama")]
mod same_ids;

use proptest::prelude::*;
use std::path::PathBuf;

/// Texts that tokenizers disagree about.
fn texts() -> Vec<String> {
    let texts = [
        "",
        " ",
        "Hello, world! It's 2026; don't WE'LL they'Ve I'M 'S 'x",
        "中文字符、日本語のテキスト。한국어 텍스트 ㄱㅎ 〇々〻",
        "مرحبا بالعالم — שלום עולם ‏123‎ ١٢٣",
        "e\u{301} \u{301}\u{302}a Ω\u{338} हिन्दी ไทย নমস্কার தமிழ் \u{1e9}",
        "👩\u{200d}👩\u{200d}👧\u{200d}👦 🏳\u{fe0f}\u{200d}🌈 🇩🇪🇫🇷 👍🏽 ☺\u{fe0f} #\u{fe0f}\u{20e3}",
        "a\0b \0\0 \u{1}\u{7f}\u{80}\u{9f}",
        "a\rb\r\rc\r\nd\n\re\n\n\nf \r g\t\r",
        "\t\t x \t  y   \n   z    \n\n  \u{a0}\u{3000} \u{2003}\u{85}w\u{2028}\u{200b}v\u{feff}",
        "1 12 123 1234 12345 1234567890 3.14159 1,000,000 Ⅻ ½ ² ௧ 一二三 0x1F 1e-9",
        "ſ 'ſ K Å ǅ ß ﬃ İ ı Ĳ ʼn",
        "<|im_end|> <|eot_id|></s><s>[INST] <|endoftext|> <unk> <0x41> ▁ ▁▁ Ġ Ċ \u{120}",
        "fn main() { println!(\"{:?}\", vec![1, 2]); } // $x = <a href='b'>&amp;</a> #!@%^*~`|\\",
        "{\"name\": \"Ada\",\n  \"ages\": [1, 22, 333],\n\t\"ok\": true, \"n\": null}\n",
        "\u{fffd}\u{fffe}\u{ffff}\u{10ffff}\u{e000}\u{378}\u{e0001}",
        "CamelCase HTTPServer iPhone ÉCOLE éCole ǅungla snake_case SCREAMING_CASE x²y₃",
        "https://example.com/a/b?c=d&e=%20f#g user@example.com C:\\dir\\file.txt /usr/lib",
    ];
    let mut texts: Vec<String> = texts.into_iter().map(str::to_owned).collect();
    for n in [2, 3, 7, 31, 64, 129, 1000] {
        texts.push(" ".repeat(n));
        texts.push(format!("a{}b", " ".repeat(n)));
        texts.push(format!("{}\n{}x", "\t".repeat(n), " ".repeat(n)));
        texts.push("\n".repeat(n));
        texts.push("=".repeat(n) + &"-".repeat(n));
        texts.push("9".repeat(n));
        texts.push("ab".repeat(n));
        texts.push("語".repeat(n));
    }
    texts
}

/// Random text of the same kinds. llama.cpp's tables are those of Unicode 15.1; a `tokenizer.json` is read with newer
/// ones, and cuts text differently at letters, digits and signs that came later.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => "[ ]{1,5}",
        1 => "[\r\n\t ]{1,6}",
        3 => "[a-zA-Z']{1,8}",
        2 => "[0-9]{1,6}",
        2 => "[!-/:-@\\[-`{-~]{1,5}",
        2 => "[\\p{L}&&\\p{Age=15.1}]{1,4}",
        1 => "[\\p{M}&&\\p{Age=15.1}]{1,2}",
        1 => "[\\p{N}\\p{S}\\p{P}&&\\p{Age=15.1}]{1,3}",
        1 => "[一-龥ぁ-ヿ가-힣א-ת]{1,6}",
        1 => "[\\p{Cn}\\p{Age=15.1}]",
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// A folder with the demo's target, if it was built.
fn demo_folder() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("demo/target");
    folder.join("tokenizer.json").is_file().then_some(folder)
}
