//! Words by kind: what tells a condition from an object one has, a role from a diet, a phone from a laptop.

/// Heads of nouns that name what someone does for a living.
pub(super) const ROLES: &str = r"(?:\w*(?:neer|oper|igner|eacher|anager|writer|ographer|driver|lawyer|officer|worker|baker|plumber|carpenter|trainer|founder|(?:business|shop|store|restaurant)\sowner|banker|builder|farmer|singer|dancer|painter|producer|director|lecturer|researcher|administrator|coordinator|translator|editor|author|actor|instructor|doctor|professor|contractor|operator|illustrator|auditor|investor|analyst|scientist|artist|journalist|therapist|dentist|pharmacist|economist|psychologist|biologist|chemist|physicist|receptionist|specialist|stylist|recruiter|librarian|technician|musician|physician|electrician|optician|veterinarian|statistician|mathematician|politician|accountant|consultant|assistant|attendant|architect|agent|student|freelancer|programmer|photographer|interpreter|barrister|barista|bartender|cashier|paramedic|\w+ologist|\w+iatrist|\w+therapist|caretaker|gardener|tailor|potter|welder|roofer|courier|retiree|homemaker|stay-at-home\s(?:mom|mum|dad|parent)|sysadmin|dev|sre|pm|qa|mechanic|firefighter|entrepreneur|intern|surgeon|pilot|chef|cook|nurse|judge|guide|coach|clerk|cfo|ceo|cto|cio|coo|vp|lead|head\sof\s\w+|secretary|apprentice|midwife|tutor|vet|postdoc|waiter|waitress|soldier|broker|trader|planner|strategist|marketer|supervisor|principal|pastor|priest|carer|nanny|gp))";

/// Diets that an "I am …" names.
pub(super) const DIETS: &str = r"(?:vegan|vegetarian|pescatarian|pescetarian|flexitarian|fruitarian|lactose[\s-]intolerant|gluten[\s-]intolerant|gluten[\s-]free|dairy[\s-]free|coeliac|celiac|kosher|halal|keto|paleo|teetotal(?:er|ler)?|plant-based)";

/// What tells that "I have …" names a condition.
pub(super) const CONDITIONS: &str = r"(?:diabetes|asthma|hypertension|high\sblood\spressure|low\sblood\spressure|arthritis|epilepsy|migraines?|depression|anxiety|adhd|add|autism|asperger'?s|crohn'?s|ibs|ibd|gerd|eczema|psoriasis|an(?:a)?emia|hypothyroidism|hyperthyroidism|insomnia|sleep\sapnea|lupus|fibromyalgia|endometriosis|pcos|glaucoma|tinnitus|dyslexia|ptsd|ocd|bipolar|parkinson'?s|multiple\ssclerosis|hiv|hepatitis|gout|scoliosis|osteoporosis|heart\s(?:condition|murmur|problem)|back\sproblem|pacemaker|kidney\s(?:stones|failure)|copd|vertigo|rosacea|narcolepsy|h(?:a)?emophilia|\w+itis|\w+emia|\w+osis|\w+\s(?:disease|disorder|syndrome|deficiency|intolerance)|cancer)";

/// A condition with what qualifies it: "type 2 diabetes", "high blood pressure disorder".
pub(super) const QUALIFIED: &str = r"(?:(?:chronic|severe|mild|type\s\d|type-\d|stage\s\w+|seasonal|bad|clinical|rheumatoid|ulcerative|generalized|social|high|low)\s)*CONDITIONS(?:\s(?:type\s\d|disease|disorder|syndrome))?";

/// What may not be had for the sake of health or faith: "can't have" is said of all else, too.
pub(super) const FOODS: &str = r"(?:dairy|lactose|milk|cheese|gluten|wheat|eggs?|nuts|peanuts|tree\snuts|almonds|shellfish|seafood|fish|soy|sesame|pork|beef|red\smeat|meat|alcohol|caffeine|coffee|sugar|salt|sodium|grapefruit|spicy\sfood|dairy\sproducts)";

/// What tells that "I take …" names a medicine.
pub(super) const MEDICINES: &str = r"(?:\d+\s?(?:mg|mcg|µg|ml|iu|units)|pills?|tablets?|capsules?|injections?|inhaler|metformin|insulin|ibuprofen|paracetamol|acetaminophen|warfarin|levothyroxine|aspirin|prednisone|gabapentin|omeprazole|albuterol|ventolin|antidepressants?|antihistamines?|blood\sthinners?|beta[\s-]blockers?|statins?|birth\scontrol|antibiotics|medication|medicine|\w{3,}(?:pril|olol|statin|sartan|cillin|mycin|zole|azepam|xetine|prazole|dipine|gliptin|tidine|setron|triptan|oxacin|cycline|thiazide|parin|mab|tinib|formin|traline|pram|zine|lukast))";

/// Who belongs to a family, pets included, with the end of the key.
pub(super) const RELATIVES: &str = r"(?:(?:older|younger|elder|little|big|twin|eldest|youngest|newborn)\s)?(?P<rel>wife|husband|spouse|partner|fiance|fiancee|fiancé|fiancée|girlfriend|boyfriend|mother|mom|mum|father|dad|brother|sister|son|daughter|child|kid|baby|aunt|uncle|cousin|niece|nephew|grandmother|grandma|grandfather|grandpa|granddaughter|grandson|mother-in-law|father-in-law|dog|cat|puppy|kitten|parrot|rabbit|hamster|horse|pet|bird|goldfish|turtle)";

/// The end of the key of a relative.
pub(super) fn relative(word: &str) -> String {
    match word.to_lowercase().as_str() {
        "mom" | "mum" => "mother".to_owned(),
        "dad" => "father".to_owned(),
        "kid" | "baby" => "child".to_owned(),
        "grandma" => "grandmother".to_owned(),
        "grandpa" => "grandfather".to_owned(),
        "fiancé" | "fiance" | "fiancée" | "fiancee" => "fiance".to_owned(),
        "puppy" => "dog".to_owned(),
        "kitten" => "cat".to_owned(),
        other => other.replace('-', "_"),
    }
}

/// The kind of device that a product is.
pub(super) fn device(product: &str) -> Option<&'static str> {
    const KINDS: [(&str, &[&str]); 9] = [
        (
            "phone",
            &[
                "iphone",
                "pixel",
                "galaxy s",
                "galaxy z",
                "galaxy a",
                "galaxy note",
                "oneplus",
                "xiaomi",
                "redmi",
                "huawei",
                "nokia",
                "fairphone",
                "phone",
                "smartphone",
                "motorola",
            ],
        ),
        (
            "laptop",
            &[
                "macbook",
                "thinkpad",
                "xps",
                "laptop",
                "chromebook",
                "surface laptop",
                "surface pro",
                "zenbook",
                "ideapad",
                "framework 1",
                "notebook",
                "lenovo",
                "latitude",
            ],
        ),
        ("tablet", &["ipad", "galaxy tab", "tablet", "fire hd"]),
        ("computer", &["imac", "mac mini", "mac studio", "desktop", "computer", "pc"]),
        ("watch", &["apple watch", "garmin", "fitbit", "galaxy watch", "smartwatch", "watch"]),
        (
            "car",
            &[
                "tesla",
                "toyota",
                "honda",
                "ford",
                "bmw",
                "audi",
                "volkswagen",
                "vw",
                "volvo",
                "subaru",
                "mazda",
                "hyundai",
                "kia",
                "nissan",
                "chevrolet",
                "jeep",
                "mercedes",
                "porsche",
                "renault",
                "peugeot",
                "fiat",
                "prius",
                "civic",
                "corolla",
                "car",
                "truck",
                "suv",
                "byd",
                "skoda",
                "golf",
                "octavia",
                "seat",
                "citroen",
                "opel",
                "dacia",
                "lexus",
                "suzuki",
                "mini cooper",
                "land rover",
                "rivian",
                "polestar",
            ],
        ),
        ("console", &["playstation", "ps5", "ps4", "xbox", "nintendo switch", "steam deck", "console"]),
        ("reader", &["kindle", "kobo"]),
        ("camera", &["canon", "nikon", "fujifilm", "gopro", "camera", "leica"]),
    ];
    let lower = product.to_lowercase();
    KINDS.iter().find(|(_, names)| names.iter().any(|n| has_word(&lower, n))).map(|(kind, _)| *kind)
}

fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric());
        let after = text[at + word.len()..].chars().next().is_none_or(|c| !c.is_alphabetic());
        before
            && (after || word.ends_with(|c: char| c == ' ' || c.is_ascii_digit()) || text[at + word.len()..].len() <= 1)
    })
}

/// The end of the key of a tool that a project uses, and whether the name is known at all.
pub(in crate::memory::propose) fn tool(name: &str) -> Option<&'static str> {
    const KINDS: [(&str, &[&str]); 12] = [
        (
            "package_manager",
            &[
                "npm", "pnpm", "yarn", "bun", "pip", "uv", "poetry", "pipenv", "conda", "cargo", "maven", "gradle",
                "composer", "bundler", "nuget",
            ],
        ),
        (
            "test_framework",
            &["jest", "vitest", "mocha", "pytest", "unittest", "junit", "rspec", "cypress", "playwright", "nextest"],
        ),
        (
            "database",
            &[
                "postgres",
                "postgresql",
                "mysql",
                "mariadb",
                "sqlite",
                "mongodb",
                "redis",
                "dynamodb",
                "cassandra",
                "oracle",
                "sql server",
                "cockroachdb",
                "clickhouse",
                "duckdb",
                "firestore",
                "supabase",
                "neo4j",
            ],
        ),
        (
            "framework",
            &[
                "react",
                "vue",
                "angular",
                "svelte",
                "next.js",
                "nextjs",
                "nuxt",
                "django",
                "flask",
                "fastapi",
                "rails",
                "ruby on rails",
                "laravel",
                "spring",
                "spring boot",
                "express",
                "nestjs",
                "axum",
                "actix",
                "tokio",
                "flutter",
                "react native",
                "tailwind",
                "astro",
                "remix",
                "phoenix",
            ],
        ),
        (
            "language",
            &[
                "rust",
                "python",
                "typescript",
                "javascript",
                "java",
                "kotlin",
                "swift",
                "go",
                "golang",
                "c++",
                "c#",
                "c",
                "ruby",
                "php",
                "scala",
                "elixir",
                "haskell",
                "clojure",
                "dart",
                "zig",
                "r",
                "julia",
                "ocaml",
            ],
        ),
        (
            "ci",
            &[
                "github actions",
                "gitlab ci",
                "jenkins",
                "circleci",
                "travis",
                "buildkite",
                "teamcity",
                "azure pipelines",
            ],
        ),
        (
            "hosting",
            &[
                "aws",
                "gcp",
                "google cloud",
                "azure",
                "vercel",
                "netlify",
                "heroku",
                "fly.io",
                "cloudflare",
                "digitalocean",
                "hetzner",
                "kubernetes",
                "k8s",
                "docker swarm",
                "nomad",
                "ecs",
            ],
        ),
        ("version_control", &["git", "mercurial", "perforce", "svn", "jujutsu", "github", "gitlab", "bitbucket"]),
        ("linter", &["eslint", "ruff", "flake8", "clippy", "prettier", "black", "biome", "rubocop", "pylint"]),
        ("tracker", &["jira", "linear", "trello", "asana", "notion", "github issues", "shortcut"]),
        ("indentation", &["tabs", "spaces", "two spaces", "four spaces", "2 spaces", "4 spaces"]),
        (
            "build_tool",
            &[
                "webpack",
                "vite",
                "esbuild",
                "bazel",
                "make",
                "cmake",
                "turborepo",
                "nx",
                "rollup",
                "turbopack",
                "meson",
                "buck2",
                "just",
            ],
        ),
    ];
    let lower = name.to_lowercase();
    // "Postgres 16" and "React 18" are versions of known names.
    let bare = lower.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == ' ' || c == 'v');
    KINDS
        .iter()
        .find(|(_, names)| names.contains(&lower.as_str()) || (!bare.is_empty() && names.contains(&bare)))
        .map(|(kind, _)| *kind)
}
