//! Conditions, counts and groups on the command line.

use crate::support::Place;

/// A store with three orders and a mail.
fn orders() -> Place {
    let place = Place::new();
    for (id, region, amount) in [("o-1", "eu", "120"), ("o-2", "eu", "80"), ("o-3", "us", "200")] {
        let region = format!("region={region}");
        let amount = format!("amount:={amount}");
        place.run(&["start", "order", "--id", id, "--attr", &region, "--attr", &amount, "--tag", "a=1"]).ok();
    }
    place.run(&["start", "mail", "--id", "m-1", "--tag", "a=1", "--tag", "b=2"]).ok();
    place
}

fn ids(place: &Place, args: &[&str]) -> Vec<String> {
    let args = [&["ls", "-q"], args].concat();
    place.run(&args).ok().lines().map(str::to_owned).collect()
}

#[test]
fn a_condition_selects_and_combines_with_the_other_filters() {
    let place = orders();
    let eu = "region = \"eu\" and amount > 100 and status in (queued, running) and started > -2h";
    assert_eq!(ids(&place, &["--where", eu]), ["o-1"]);
    assert_eq!(
        ids(&place, &["--where", "amount >= 80", "--workflow", "order", "--oldest"]),
        ["o-1", "o-2", "o-3"]
    );
    assert_eq!(ids(&place, &["--tag", "a=1", "--tag", "b=2"]), ["m-1"]);
    assert_eq!(ids(&place, &["--roots", "--limit", "0", "--order", "oldest"]).len(), 4);
    let shown = place.run(&["show", "o-1"]).ok();
    assert!(shown.contains("amount = 120, region = \"eu\""), "{shown}");
}

#[test]
fn a_cursor_belongs_to_its_condition_and_order() {
    let place = orders();
    let list = ["ls", "--where", "created > -2h and amount > 1", "--limit", "1", "--json"];
    let next = place.run(&list).json()["next"].as_str().unwrap().to_owned();
    let page = place.run(&[&list[..], &["--after", &next]].concat()).json();
    assert_eq!(page["items"][0]["run"], "o-2", "a relative time is another moment on every page: {page}");
    for other in [
        &["ls", "--where", "created > -2h and amount > 2", "--after", &next][..],
        &["ls", "--after", &next],
        &["ls", "--oldest", "--where", "created > -2h and amount > 1", "--after", &next],
    ] {
        let ran = place.run(other);
        assert!(ran.code == 2 && ran.err.contains("error[GS0154]"), "{other:?}: {}{}", ran.out, ran.err);
    }
}

#[test]
fn runs_are_counted_and_grouped() {
    let place = orders();
    assert_eq!(place.run(&["ls", "--count", "--where", "has region"]).ok(), "3\n");
    assert_eq!(place.run(&["ls", "--count", "--status", "failed,parked"]).ok(), "0\n");
    let groups = place.run(&["ls", "--group-by", "region", "--workflow", "order", "--json"]).json();
    assert_eq!((&groups["total"], &groups["groups"][0]["key"]), (&3.into(), &"eu".into()));
    assert_eq!(groups["groups"][0]["count"], 2);
    let table = place.run(&["ls", "--group-by", "workflow"]).ok();
    assert!(table.contains("order") && table.contains("mail"), "{table}");
    place.run(&["ls", "--group-by", "created"]).fails(2, "GS0143");
}

#[test]
fn a_wrong_condition_shows_the_place_and_a_code() {
    let place = orders();
    let err = place.run(&["ls", "--where", "amount > and region = \"eu\""]).fails(2, "GS0139");
    assert!(err.contains("amount > and region = \"eu\"\n         ^^^"), "{err}");
    let err = place.run(&["ls", "--where", "stauts = failed"]).fails(2, "GS0140");
    assert!(err.contains("did you mean status?"), "{err}");
    place.run(&["ls", "--where", "status = faild"]).fails(2, "GS0141");
    let err = place.run(&["ls", "--where", "regoin = \"eu\""]).fails(2, "GS0140");
    assert!(err.contains("no run has an attribute regoin"), "{err}");
    let ran = place.run(&["ls", "--where", "amount = \"x\""]);
    assert!(ran.err.contains("compares amount with text, but it is integer"), "{}", ran.err);
}

#[test]
fn wrong_attributes_are_refused_at_the_start() {
    let place = Place::new();
    let long = format!("a={}", "x".repeat(257));
    place.run(&["start", "order", "--attr", &long]).fails(2, "GS0142");
    for wrong in ["a", "a:=", "a:=null", "a:=[1]", "a:=18446744073709551615", "..=x"] {
        assert_eq!(place.run(&["start", "order", "--attr", wrong]).code, 2, "{wrong}");
    }
    assert!(ids(&place, &[]).is_empty(), "nothing was started");
}
