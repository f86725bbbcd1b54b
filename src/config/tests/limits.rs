//! Prices and limits.

use super::*;

#[test]
fn a_target_has_a_price_of_its_own() {
    let with = |target: &str| {
        let text = format!(
            "[[providers]]\nname='p'\nbase_url='http://h'\n[[models]]\nname='m'\n[[models.targets]]\nprovider='p'\n{target}"
        );
        load(&text)
    };
    let config =
        with("model='mine'\nprice_input_per_million=1\nprice_output_per_million=2.5\nprice_date='2026-11'").unwrap();
    let price = config.models[0].targets[0].price.over(None).unwrap();
    assert_eq!((price.input, price.output), (Rate::per_million(1.0).unwrap(), Rate::per_million(2.5).unwrap()));
    // The table knows what is left out here.
    assert!(with("model='gpt-4o'\nprice_input_per_million=1").is_ok());
    let half = with("model='mine'\nprice_input_per_million=1").unwrap_err().to_string();
    assert!(half.contains("models[0].targets[0].price_output_per_million: is missing"), "{half}");
    assert!(with("model='mine'\nprice_input_per_million=-1\nprice_output_per_million=1").is_err());
}

#[test]
fn limits_are_one_vocabulary_for_keys_people_tenants_and_models() {
    let all = "max_concurrency = 1\nrequests_per_minute = 2\ntokens_per_minute = 3\ntokens_per_day = 4\ntokens_per_month = 5\nusd_per_day = 0.5\nusd_per_month = 7\n";
    let text = format!(
        "[[keys]]\nkey='k'\n{all}[keys.each_subject]\n{all}[limits.tenants.\"acme & co\"]\n{all}[limits.each_tenant]\n{all}\
         [limits.each_subject]\n{all}[[providers]]\nname='p'\nbase_url='http://h'\n\
         [[models]]\nname='m'\n[models.limits]\n{all}[[models.targets]]\nprovider='p'\nmodel='gpt-4o'\n"
    );
    let config = load(&text).unwrap();
    let expected = Limits {
        max_concurrency: Some(1),
        requests_per_minute: Some(2),
        tokens_per_minute: Some(3),
        tokens_per_day: Some(4),
        tokens_per_month: Some(5),
        usd_per_day: Some(500_000_000),
        usd_per_month: Some(7_000_000_000),
    };
    let [(tenant, of_tenant)] = config.limits.tenants.as_slice() else { panic!("one tenant") };
    let found = [
        config.keys[0].limits,
        config.keys[0].each_subject,
        *of_tenant,
        config.limits.each_tenant,
        config.limits.each_subject,
        config.models[0].limits,
    ];
    assert_eq!((tenant.as_str(), found), ("acme & co", [expected; 6]));

    let wrong = mistakes(
        "[limits.tenants.acme]\ntokens_per_day = 0\nusd_per_day = -1\nusd_per_month = 'much'\ntokens_per_hour = 1\n",
    );
    assert_eq!(wrong.len(), 4, "{wrong:#?}");
    assert_says(&wrong, "limits.tenants.acme.tokens_per_hour", &["unknown key", "tokens_per_minute"]);
}

/// A limit that cannot be kept is not silently ignored.
#[test]
fn a_limit_of_money_needs_prices() {
    let with = |key: &str, target: &str| {
        format!(
            "[[keys]]\nkey='k'\nmodels=['m']\n{key}\n[[providers]]\nname='p'\nbase_url='http://h'\n\
             [[models]]\nname='m'\n[[models.targets]]\nprovider='p'\nmodel='mine'\n{target}"
        )
    };
    assert!(load(&with("tokens_per_day = 5", "")).is_ok());
    let wrong = mistakes(&with("usd_per_day = 5", ""));
    assert_says(&wrong, "keys[0]", &["US dollars", "p/mine", "price_input_per_million"]);
    let wrong = mistakes(&with("each_subject = { usd_per_month = 5 }", ""));
    assert_says(&wrong, "keys[0]", &["p/mine"]);
    let free = "price_input_per_million = 0\nprice_output_per_million = 0";
    let config = load(&with("usd_per_day = 5", free)).unwrap();
    assert_eq!(config.unpriced(&["m".to_owned()]), Unpriced::default());
    assert_eq!(
        config.unpriced(&[]),
        Unpriced::default(),
        "no provider is the default, so no other name leads anywhere"
    );
    let open = load("[[keys]]\nkey='k'\nusd_per_day=5\n[[providers]]\nname='p'\nbase_url='http://h'\n").unwrap();
    assert!(open.unpriced(&[]).is_open && !open.unpriced(&["gpt-4o".to_owned()]).is_open);
    assert!(open.unpriced(&["mine".to_owned()]).is_open);
}
