//! Word lists: numbers in words, and words that begin a sentence.

/// Numbers in words. "One" is as often a pronoun, "second" as often a time.
pub(super) const NUMBER_WORDS: [(&str, &str); 29] = [
    ("two", "2"),
    ("three", "3"),
    ("four", "4"),
    ("five", "5"),
    ("six", "6"),
    ("seven", "7"),
    ("eight", "8"),
    ("nine", "9"),
    ("ten", "10"),
    ("eleven", "11"),
    ("twelve", "12"),
    ("thirteen", "13"),
    ("fourteen", "14"),
    ("fifteen", "15"),
    ("sixteen", "16"),
    ("seventeen", "17"),
    ("eighteen", "18"),
    ("nineteen", "19"),
    ("twenty", "20"),
    ("thirty", "30"),
    ("forty", "40"),
    ("fifty", "50"),
    ("sixty", "60"),
    ("seventy", "70"),
    ("eighty", "80"),
    ("ninety", "90"),
    ("hundred", "100"),
    ("thousand", "1000"),
    ("million", "1000000"),
];

/// Words that begin a sentence without being a name, and those for user and assistant: English, then Spanish, Portuguese, Italian,
/// French, German and Russian. Between spaces; each is looked up with its spaces.
pub(super) const STARTERS: &str = " \
    a about according additional after afterwards agent all also although among an and another any as assistant at \
    because before both but by customer despite due during each earlier either every few finally first for from \
    furthermore given he her his how however i if in instead it its last later many meanwhile moreover most neither \
    next no nothing not now of on once one only open other our out over overall previously rather second several she \
    since so some still such that the their then there these they third this those though through to today under \
    until upon user we what when where whether which while who why with within without yet el la los las un una en \
    para por pero su sus se es usuario usuaria asistente o os um uma seu sua usuário usuária assistente il lo gli le \
    per ma utente les une des pour mais elle ils son sa ses dans cela utilisateur utilisatrice der die das ein eine \
    er sie im am für mit bei nach noch auch aber und nutzer nutzerin benutzer benutzerin assistentin он она они это \
    его её их в на по для если но и также ещё пользователь пользовательница ассистент помощник ";
