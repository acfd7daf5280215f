"""Wording around the facts: attributes with free names, requests, questions, topics; split by hash."""

from __future__ import annotations

from demo.names import words

FIRST_WORDS = words(
    """badge gate room desk locker station signal harbour garden engine battery carpet window ticket
    delivery cargo archive studio market bridge tower cabin kitchen school library museum sensor
    valve pump cable mirror puzzle library river ferry tram orchard bakery theatre clinic forest
    camp rocket planet lantern anchor"""
)
LAST_WORDS = words(
    """number code name label colour owner city keeper brand model type supplier sponsor captain manager
    designer inspector address nickname password mark count limit weight height depth width speed
    length score level total"""
)
NUMERIC = words("number count limit weight height depth width speed length score level total")


def variants(openers: str, rest: str) -> tuple[str, ...]:
    """Every opener (separated by `|`) before every ending (separated by `|`)."""
    return tuple(f"{a}{b}" for a in openers.split("|") for b in rest.split("|"))


ATTRIBUTE = (
    *variants(
        "The {k} |Its {k} |Our {k} |Their {k} |This {k} |The form says the {k} ",
        "is {v}.|is now {v}.|is still {v}.|was set to {v}.|is listed as {v}.|reads {v}.|remains {v}."
        "|became {v}.|must be {v}.|will be {v}.|changed to {v}.|has been {v} since May.|was once {v}.",
    ),
    *variants(
        "{v} is |{v} became |{v} was entered as |We noted {v} as |The file gives {v} as |They chose {v} as "
        "|You will find {v} under |Someone wrote {v} for |All agreed on {v} as ",
        "the {k}.|its {k}.|our {k}.|their {k}.",
    ),
    *variants("For the {k} |As the {k} |On the {k} ", "we have {v}.|they chose {v}.|the note has {v}."),
    *variants("The {k}: |{K}: |- {k}: |{K} = |{K} - |On the {k}: |Now the {k}: |Here the {k}: ", "{v}."),
    "With {v} as its {k}, all is well.",
    "Since {v} is the {k}, all is well.",
)

FILLER = (
    "The weather was mild.",
    "Nobody complained.",
    "More news will follow.",
    "The rest is routine.",
    "Thank you for reading.",
    "Everything else stays the same.",
    "The office closes early today.",
    "Please keep this short.",
    "That is all for now.",
    "A copy is in the archive.",
    "The meeting was short.",
    "There were no questions.",
    "Tea was served.",
    "It rained all day.",
    "We will call again.",
    "The team was pleased.",
    "Nothing else was said.",
    "The line was busy.",
    "Have a good day.",
    "The report is due soon.",
)

JOINERS = (
    "",
    "",
    "",
    "",
    "",
    "",
    "Also, ",
    "As far as we know, ",
    "According to the note, ",
    "By the way, ",
    "In short, ",
    "Note: ",
)

SYSTEM = (
    "You extract data as JSON.",
    "You are a helpful assistant.",
    "Answer with JSON only.",
    "You read texts and answer.",
    "Read the text and do what is asked.",
    "You turn text into data.",
    "Be brief and exact.",
    "You are a careful clerk.",
)

BY_SCHEMA = (
    "Extract the data as JSON by this schema: {f}",
    "Answer with JSON that fits this schema: {f}",
    "Schema: {f}",
    "Return JSON for this schema: {f}",
    "Fill in this JSON schema: {f}",
    "Use this JSON schema: {f}",
    "JSON schema: {f}",
    "Extract the fields of this schema: {f}",
    "Reply in JSON. The schema is {f}",
    "Follow this schema: {f}",
)
BY_LIST = (
    "Fields: {f}",
    "Return JSON with {f}.",
    "Extract these fields: {f}",
    "Give me {f} as JSON.",
    "JSON fields: {f}.",
    "Extract {f} as JSON.",
    "Extract as JSON: {f}",
    "I need these fields: {f}.",
    "Please extract {f}.",
    "Keys: {f}",
    "Turn the text into JSON with {f}.",
    "Write a JSON object with {f}.",
)
BY_NOTHING = (
    "Extract the data as JSON.",
    "Turn the text into JSON.",
    "Summarise the text as JSON.",
    "JSON please.",
    "Extract the facts.",
    "Give me the data as JSON.",
    "Convert this into JSON.",
    "Extract the fields.",
)
PLACE = (
    "{t}\n\n{r}",
    "{t}\n{r}",
    "Text: {t}\n{r}",
    "{r}\n\n{t}",
    "{r}\nText: {t}",
    "Here is a text: {t}\n\n{r}",
    "{r}\n\nText: {t}",
)

ASK = (
    "What is the {k}?",
    "What does the text give as the {k}?",
    "Tell me the {k}.",
    "Which {k} is mentioned?",
    "What is the {k} in the text?",
    "Name the {k}.",
    "Please give the {k}.",
    "Find the {k}.",
    "And the {k}?",
)
ASK_SENTENCE = (
    "What is the {k}? Answer in a sentence.",
    "In one sentence: what is the {k}?",
    "Tell me the {k} in a sentence.",
    "Say in a sentence what the {k} is.",
)
IS_IT = (
    "Is the {k} {v}?",
    "Is it true that the {k} is {v}?",
    "Does the text say the {k} is {v}?",
    "Yes or no: is the {k} {v}?",
)
MENTIONS = (
    "Does the text mention the {k}?",
    "Is the {k} given?",
    "Does the text say what the {k} is?",
    "Is there a {k} in the text?",
)

CLASSIFY = (
    "Classify the text. Labels: {l}",
    "Which label fits: {l}?",
    "Choose one label: {l}",
    "Is this about {l}?",
    "Pick the topic from: {l}",
    "Topics: {l}. Which one is it?",
    "Label the text with one of: {l}.",
)

TOPICS = {
    "sports": "goal match coach league striker referee trophy stadium race medal",
    "cooking": "oven recipe soup flour sauce butter dough pan spice salad",
    "finance": "loan stock bond dividend market tax budget interest shares profit",
    "travel": "flight hotel passport luggage beach airport tour visa island train",
    "health": "doctor fever vaccine clinic pain diet therapy nurse virus surgery",
    "music": "song violin concert album choir melody drummer opera band piano",
    "weather": "storm rain snow wind frost cloud sunshine hail fog thunder",
    "technology": "software laptop server robot chip battery network screen keyboard code",
    "nature": "forest river bear eagle moss valley oak salmon meadow wolf",
    "school": "teacher exam pupil homework lesson grade classroom essay lecture chalk",
}
TOPIC_SAYS = (
    "Everyone talked about the {a} and the {b}.",
    "The {a} was better than the {b}.",
    "First came the {a}, then the {b}.",
    "After the {a} there was another {b}.",
    "They compared the {a} with the {b}.",
    "No {a} without a {b}.",
    "A new {a} and an old {b} made the news.",
    "The {a} changed a lot because of the {b}.",
    "We saw the {a} near the {b}.",
    "It was all about one {a} and one {b}.",
)
MOODS = {
    "positive": "great lovely excellent wonderful perfect superb delightful pleasant",
    "negative": "awful broken terrible useless poor horrible disappointing rude",
}
MOOD_SAYS = (
    "The service was {a}.",
    "I found it {a} and {b}.",
    "What a {a} day, simply {b}.",
    "The staff were {a}, the food {b}.",
    "It felt {a} from start to end.",
    "A {a} experience, really {b}.",
    "Honestly, it was {a}.",
    "My stay was {a} and the room {b}.",
)
