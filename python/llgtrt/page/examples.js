// Constraints to begin with, and a prompt for each.

const person = {
  type: "object",
  properties: { name: { type: "string" }, age: { type: "integer", minimum: 0, maximum: 130 }, city: { type: "string" } },
  required: ["name", "age", "city"],
  additionalProperties: false,
};

export const EXAMPLES = [
  { name: "free text" },
  { name: "a person", schema: person, prompt: "Extract the person: Anna Schmidt is 34 years old and lives in Berlin." },
  {
    name: "a list of tags",
    schema: { type: "array", items: { enum: ["news", "sport", "science", "art"] }, minItems: 1, maxItems: 3 },
    prompt: "Tag this: The museum opened an exhibition on the physics of light.",
  },
  {
    name: "an answer with its grounds",
    schema: {
      type: "object",
      properties: { reasons: { type: "array", items: { type: "string" }, maxItems: 3 }, answer: { type: "boolean" } },
      required: ["reasons", "answer"],
      additionalProperties: false,
    },
    prompt: "Is 17 a prime number?",
  },
  {
    name: "a tree (a schema that refers to itself)",
    schema: {
      $defs: {
        node: {
          type: "object",
          properties: { label: { type: "string" }, children: { type: "array", items: { $ref: "#/$defs/node" }, maxItems: 2 } },
          required: ["label", "children"],
          additionalProperties: false,
        },
      },
      $ref: "#/$defs/node",
    },
    // Small models begin trees that never end; one that they are given, they write.
    prompt:
      '{"label": "animals", "children": [{"label": "cat", "children": []}, {"label": "dog", "children": []}]}\nWrite this tree again.',
  },
  {
    name: "a date (regular expression)",
    kind: "regex",
    text: "\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])",
    prompt: "When did the first human walk on the Moon? Give the date.",
  },
  {
    name: "a sum (Lark grammar)",
    kind: "lark",
    text: 'start: number (sign number)+ "=" number\nsign: "+" | "-"\nnumber: /[0-9]{1,4}/',
    prompt: "Write the sum of 12 and 30 as an equation.",
  },
  {
    name: "one of several (choices)",
    kind: "choice",
    text: "billing\nshipping\ndamaged",
    prompt: "What is this message about? The vase arrived in four pieces.",
  },
];
