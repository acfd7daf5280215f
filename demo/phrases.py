"""Wording around the facts: attributes with free names, requests, questions, topics; split by hash."""

from __future__ import annotations

from demo.names import words

FIRST_WORDS = words(
    """badge gate room desk locker station signal harbour garden engine battery carpet window ticket
    delivery cargo archive studio market bridge tower cabin kitchen school library museum sensor
    valve pump cable mirror puzzle river ferry tram orchard bakery theatre clinic forest
    camp rocket planet lantern anchor boiler chapel course dock farm fleet hall island kiosk lab
    ladder meadow mine office parcel pier plant port prison quarry ramp road roof shed shop squad
    stable stage store tank team tent track trail train vault village wagon ward yard zone"""
)
LAST_WORDS = words(
    """number code name label colour owner city keeper brand model type supplier sponsor captain manager
    designer inspector address nickname password mark count limit weight height depth width speed
    length score level total rating volume range rank area agent author chief editor guide founder
    partner teacher maker region village title motto slogan series version material"""
)
NUMERIC = words(
    """number count limit weight height depth width speed length score level total rating volume range
    rank area"""
)
PERSONAL = words(
    """owner keeper captain manager designer inspector agent author chief editor guide founder partner
    teacher"""
)
LOCAL = words("city address region village")


def variants(openers: str, rest: str) -> tuple[str, ...]:
    """Every opener (separated by `|`) before every ending (separated by `|`)."""
    return tuple(f"{a}{b}" for a in openers.split("|") for b in rest.split("|"))


ATTRIBUTE = (
    *variants(
        "The {k} |Its {k} |Our {k} |Their {k} |This {k} |The form says the {k} |We know the {k} "
        "|They wrote that the {k} |I think the {k} |Today the {k} |It says that the {k} ",
        "is {v}.|is now {v}.|is still {v}.|was set to {v}.|is listed as {v}.|reads {v}.|remains {v}."
        "|became {v}.|must be {v}.|will be {v}.|changed to {v}.|has been {v} since May.|was once {v}."
        "|was {v}.|should be {v}.|is given as {v}.|equals {v}.|shows {v}.|is {v}, they say.|stays {v}.",
    ),
    *variants(
        "{v} is |{v} became |{v} was entered as |{v} stands as |{v} was chosen as ",
        "the {k}.|its {k}.|our {k}.|their {k}.|the {k} now.|the {k} here.",
    ),
    *variants(
        "For the {k} |As the {k} |On the {k} |As for the {k}, ",
        "we have {v}.|they chose {v}.|the note has {v}.|it is {v}.|put {v}.|I read {v}.|use {v}.",
    ),
    *variants(
        "The {k}: |{K}: |- {k}: |{K} = |{K} - |On the {k}: |Now the {k}: |Here the {k}: |* {k}: |{k}: ",
        "{v}.|{v};|{v} (new).|{v} (old).|{v}, again.",
    ),
)

FILLER = variants(
    "The weather |The meeting |The rest |Everything else |The office |The line |The report |The talk |Tea "
    "|The week |The drive |A copy |The music |The team |The coffee ",
    "was mild.|stays the same.|was short.|is routine.|was busy today.|will follow.|is in the archive."
    "|was fine.|comes later.|was late again.|pleased nobody.|pleased everybody.|was never mentioned.",
) + variants(
    "Nobody |Somebody |Everybody |Hardly anyone |One of us ",
    "complained.|had questions.|will call again.|stayed long.|read this twice.|took notes.|left early.",
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

BY_SCHEMA = variants(
    "Extract the data as JSON|Answer with JSON|Return JSON|Write JSON|Reply in JSON|Give me JSON"
    "|Turn the text into JSON|Fill in a JSON object|Put the facts into JSON",
    " by this schema: {f}| that fits this schema: {f}|. Schema: {f}| for the schema {f}"
    "|. The schema is {f}|. Follow this JSON schema: {f}|. Use this schema: {f}|: {f}",
)
BY_LIST = (
    *variants(
        "Return |Give me |Extract |Please extract |Write |I need |Find |Collect |Please return |Now list ",
        "{f} as JSON.|{f}.|JSON with {f}.|a JSON object with {f}.|these fields: {f}"
        "|these fields as JSON: {f}.|the fields {f}.|an object with {f}.|just {f}.",
    ),
    *variants(
        "Fields|JSON fields|Keys|Extract as JSON|The keys of the JSON|Wanted|Wanted as JSON|JSON keys",
        ": {f}| are {f}.| = {f}|: {f}.| to return: {f}|, please: {f}| needed: {f}.",
    ),
)
BY_NOTHING = variants(
    "Extract |Give me |Summarise |Write down |Return |Convert |Please extract |List |Collect |I need ",
    "the data as JSON.|the facts.|the text as JSON.|the fields.|this as JSON.|the facts as JSON.|the details."
    "|everything as JSON.",
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

THING = "the {k}|the {k} in the text|the {k} in this text|the {k} that is given|the {k} here"

ASK = (
    *variants(
        "What is |So what is |Now, what is |And what is |According to the text, what is |Can you say what is "
        "|What does the text give as |What do they give as |Which value is ",
        THING.replace("|", "?|") + "?",
    ),
    *variants(
        "Tell me |Name |Please give |Find |Please name |State |Give me |Give just "
        "|Only tell me |I want to know "
        "|Look for |Return ",
        THING.replace("|", ".|") + ".",
    ),
    *variants(
        "Which {k} |What {k} |And which {k} |So which {k} ",
        "is mentioned?|is given?|does the text mention?|is it?|is meant?|does it say?|is stated?",
    ),
    *variants("And the {k}|The {k}|And what about the {k}|Just the {k}|{k}", "?|, please.|, please?"),
)
SENTENCES = "in a sentence|in one sentence|as a sentence|in a full sentence|as one sentence"

ASK_SENTENCE = (
    *variants(
        "What is the {k}? |The {k}? |Which {k} is given? ", f"Answer {SENTENCES.replace('|', '.|Answer ')}."
    ),
    *variants(
        "Tell me the {k} |Say what the {k} is |State the {k} |Give the {k} ",
        SENTENCES.replace("|", ".|") + ".",
    ),
    *variants(
        "In one sentence: |In a sentence: |As a sentence: |One full sentence, please: ",
        "what is the {k}?|which {k} is given?|tell me the {k}.|name the {k}.",
    ),
)
IS_IT = variants(
    "Is |Yes or no: is |Is it true that it says |Tell me, is |So is |And is |Just yes or no: is |Now, is "
    "|According to the text, is |Please check: is |Am I right, is ",
    "the {k} {v}?|the {k} really {v}?|{v} the {k}?|the {k} given as {v}?|it {v}, the {k}?",
)
MENTIONS = (
    *variants(
        "Does the text |Does it |Yes or no: does the text |Tell me, does the text |Do they |And does it ",
        "mention the {k}?|give the {k}?|say what the {k} is?|state the {k}?|name a {k}?|have a {k}?",
    ),
    *variants(
        "Is the {k} |Is a {k} |Is there a {k} that is |Is any {k} |And is the {k} ",
        "given?|mentioned?|named?|in the text?|stated?|known?",
    ),
)

CLASSIFY = variants(
    "Classify the text|Which label fits|Choose one label|Pick the topic|Which one is it|Label the text"
    "|What is this about|Select what fits|Now classify this",
    ". Labels: {l}|: {l}?|: {l}|: {l}.|. Choose from {l}.|. One of: {l}|. Topics: {l}",
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
TOPIC_SAYS = variants(
    "Everyone talked about |They compared |We heard a lot about |It was all about |The paper wrote about "
    "|Nobody could explain |People argued about |The evening ended with |My friends like |I was told about ",
    "the {a} and the {b}.|one {a} and one {b}.|a new {a} and an old {b}.|the {a}, then the {b}."
    "|the {a} near the {b}.|the {a} because of the {b}.|every {a} without a {b}.",
)
MOODS = {
    "positive": "great lovely excellent wonderful perfect superb delightful pleasant",
    "negative": "awful broken terrible useless poor horrible disappointing rude",
}
MOOD_SAYS = variants(
    "The service was |I found it |It felt |The staff were |My stay was |Honestly, it was |The room was "
    "|The food tasted |All in all it was |From start to end it was ",
    "{a}.|{a} and {b}.|{a}, simply {b}.|really {a}.|so {a}, and {b} too.|{a} again.|{b}, even {a}.",
)
