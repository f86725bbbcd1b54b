//! What made-up people travel by, and where to.

pub(crate) const SUBJECTS: [&str; 16] = [
    "the night train",
    "a window seat",
    "the bicycle ticket",
    "my season pass",
    "the dining car",
    "a group fare",
    "the ferry link",
    "lost luggage",
    "the winter timetable",
    "a sleeping berth",
    "the mountain line",
    "a refund",
    "the station cafe",
    "platform lifts",
    "the coast express",
    "a family discount",
];
pub(crate) const PLACES: [&str; 16] = [
    "Lisbon", "Oslo", "Trieste", "Ghent", "Porto", "Bergen", "Zagreb", "Turin", "Malaga", "Gdansk", "Leipzig", "Basel",
    "Nantes", "Seville", "Utrecht", "Graz",
];
