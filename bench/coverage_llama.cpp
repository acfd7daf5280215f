// llama.cpp's own way from a JSON schema to a grammar, without a model, for coverage_peers.py. With S its sources, and
// B a build of them with BUILD_SHARED_LIBS=OFF:
//   c++ -std=c++17 -O2 -I$S/src -I$S/common -I$S/include -I$S/ggml/include bench/coverage_llama.cpp \
//     $B/common/libllama-common.a $B/common/libllama-common-base.a $B/src/libllama.a $B/ggml/src/libggml.a \
//     $B/ggml/src/libggml-cpu.a $B/ggml/src/libggml-base.a $B/vendor/*/lib*.a -o coverage_llama
// It reads commands, a line each, and answers each with a line:
//   g SCHEMA   converts and compiles -> "ok" or "refused WHY"
//   r          begins a text         -> "ok"
//   a TEXT     continues it          -> "1" where all of it is accepted, else "0"
//   m          what may come next    -> printable code points of ASCII, and "end" where the text may end here
// TEXT and SCHEMA are JSON without line feeds. With `--version` it says which llama.cpp it is.
#include "build-info.h"
#include "json-schema-to-grammar.h"
#include "llama-grammar.h"
#include "unicode.h"

#include <array>
#include <exception>
#include <iostream>
#include <memory>
#include <string>

using Grammar = std::unique_ptr<llama_grammar, void (*)(llama_grammar *)>;

static Grammar compile(const std::string & schema) {
    const std::string text = json_schema_to_grammar(common_json::parse(schema));
    llama_grammar * grammar =
        llama_grammar_init_impl(nullptr, text.c_str(), "root", false, nullptr, 0, nullptr, 0);
    return {grammar, llama_grammar_free_impl};
}

static bool accept(llama_grammar & grammar, const std::string & text) {
    for (const auto point : unicode_cpts_from_utf8(text)) {
        llama_grammar_accept(&grammar, point);
        if (grammar.stacks.empty()) {
            return false;
        }
    }
    return true;
}

static std::string next(const llama_grammar & grammar) {
    std::array<std::array<uint32_t, 2>, 128> points{};
    llama_grammar_candidates left;
    for (uint32_t c = 0x20; c < 0x7f; ++c) {
        points[c] = {c, 0};
        left.push_back({c, points[c].data(), {0, 0}, static_cast<llama_token>(c)});
    }
    std::array<bool, 128> rejected{};
    bool end = false;
    for (const auto & stack : grammar.stacks) {
        if (stack.empty()) {
            end = true;
        } else {
            left = llama_grammar_reject_candidates_for_stack(grammar.rules, stack, left);
        }
    }
    for (const auto & candidate : left) {
        rejected[candidate.index] = true;
    }
    std::string answer;
    for (uint32_t c = 0x20; c < 0x7f; ++c) {
        answer += rejected[c] ? "" : std::to_string(c) + " ";
    }
    return answer + (end ? "end" : "");
}

int main(int count, char **) {
    if (count > 1) {
        std::cout << llama_commit() << std::endl;
        return 0;
    }
    Grammar pristine{nullptr, llama_grammar_free_impl}, grammar{nullptr, llama_grammar_free_impl};
    for (std::string line; std::getline(std::cin, line);) {
        const std::string rest = line.size() > 2 ? line.substr(2) : "";
        try {
            switch (line[0]) {
                case 'g':
                    pristine = compile(rest);
                    std::cout << (pristine ? "ok" : "refused the grammar does not compile");
                    break;
                case 'r':
                    grammar = {llama_grammar_clone_impl(*pristine), llama_grammar_free_impl};
                    std::cout << "ok";
                    break;
                case 'a':
                    std::cout << (!grammar->stacks.empty() && accept(*grammar, rest));
                    break;
                default:
                    std::cout << next(*grammar);
            }
        } catch (const std::exception & error) {
            std::string why = error.what();
            for (char & c : why) {
                c = c == '\n' ? ' ' : c;
            }
            std::cout << "refused " << why;
        }
        std::cout << std::endl;
    }
}
