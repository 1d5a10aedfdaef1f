use std::borrow::Cow;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::command::{Doing, Fence, Owned, StepEnded};
use crate::event::Note;
use crate::{BranchId, Command, Limits, Millis, Path, Payload, RunId, Seq, TaskId};

const VALUE: &str = "s3cr\"et/ü+ k&y";

fn hiding(value: &str) -> Redactor {
    let mut redactor = Redactor::default();
    redactor.hide(value).unwrap();
    redactor
}

/// Reference implementation of base64.
fn base64(bytes: &[u8]) -> String {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let block = |three: &[u8]| {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | u32::from(*three.get(at).unwrap_or(&0)));
        let letter = |at: usize| match at <= three.len() {
            true => char::from(letters[(bits >> (18 - 6 * at) & 63) as usize]),
            false => '=',
        };
        (0..4).map(letter).collect::<String>()
    };
    bytes.chunks(3).map(block).collect()
}

#[test]
fn a_registered_value_is_hidden_in_every_encoding() {
    let redactor = hiding(VALUE);
    let json = serde_json::to_string(VALUE).unwrap();
    for (written, shown) in [
        (format!("<{VALUE}>"), "<[secret]>".to_owned()),
        (format!("{VALUE}{VALUE}"), "[secret]".to_owned()),
        (json.clone(), "\"[secret]\"".to_owned()),
        (serde_json::to_string(&json).unwrap(), "\"\\\"[secret]\\\"\"".to_owned()),
        (format!("{VALUE:?}"), "\"[secret]\"".to_owned()),
        ("?key=s3cr%22et%2F%C3%BC%2B%20k%26y&a=b".to_owned(), "?key=[secret]&a=b".to_owned()),
        ("?key=s3cr%22et%2f%c3%bc%2b%20k%26y".to_owned(), "?key=[secret]".to_owned()),
        ("key=s3cr%22et%2F%C3%BC%2B+k%26y".to_owned(), "key=[secret]".to_owned()),
    ] {
        assert_eq!(redactor.text(&written), shown, "{written}");
    }
}

#[test]
fn a_value_is_found_in_base64_beside_other_bytes() {
    let redactor = hiding("opensesame42");
    for user in ["", "a", "ab", "abc", "abcd"] {
        for behind in ["", "x", "xy"] {
            let basic = base64(format!("{user}opensesame42{behind}").as_bytes());
            let shown = redactor.text(&basic);
            assert!(shown.contains(MARK), "{basic} -> {shown}");
            let left = shown.replace(MARK, "").len();
            assert!(left <= base64(format!("{user}{behind}").as_bytes()).len() + 8, "{basic} -> {shown}");
            let for_urls = basic.replace('+', "-").replace('/', "_");
            assert!(redactor.finds(&for_urls), "{for_urls}");
        }
    }
}

#[test]
fn a_key_of_several_lines_is_hidden_line_by_line() {
    let pem = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END PRIVATE KEY-----\n";
    let redactor = hiding(pem);
    assert_eq!(redactor.text(&format!("bad key: {pem}")), "bad key: [secret]\n");
    assert_eq!(redactor.text("line AQEFAASCBKcwggSjAgEAAoIB is bad"), "line [secret] is bad");
    assert_eq!(redactor.text("-----BEGIN PRIVATE KEY-----"), "-----BEGIN PRIVATE KEY-----");
}

#[test]
fn overlapping_values_are_hidden_completely() {
    let mut redactor = hiding("abcdefgh");
    redactor.hide("abcdef").unwrap();
    redactor.hide("fghijk").unwrap();
    assert_eq!(redactor.text("-abcdefghijk-abcdef-"), "-[secret]-[secret]-");
}

#[test]
fn a_truncated_value_is_hidden() {
    let redactor = hiding("opensesame42");
    assert_eq!(redactor.text("the door: opense…"), "the door: [secret]…");
    assert_eq!(redactor.text("the door: opensesame42…"), "the door: [secret]…");
    assert_eq!(redactor.text("the door: op…"), "the door: op…", "too short to recognise");
    assert_eq!(redactor.text("opense"), "opense", "nothing was cut");
}

#[test]
fn text_without_secrets_is_not_copied() {
    let redactor = hiding("opensesame42");
    for text in ["", "opensesame4", "nothing to see here", "ünïcödé…", "{\"a\": [1, \"b\\n\"]}"] {
        assert!(matches!(redactor.text(text), Cow::Borrowed(same) if same == text));
        assert!(matches!(redactor.json(text), Cow::Borrowed(same) if same == text));
        assert!(!redactor.finds(text));
    }
    assert!(matches!(Redactor::default().json("{\"password\": 1}"), Cow::Borrowed(_)));
    assert!(redactor.has_values() && !Redactor::new(Names::usual()).has_values());
}

#[test]
fn a_value_that_would_hide_too_much_is_refused() {
    let mut redactor = Redactor::default();
    assert_eq!(redactor.hide(" abcde\n"), Err(Unhidable::TooShort));
    assert_eq!(redactor.hide("secret"), Err(Unhidable::Mark));
    assert_eq!(redactor.hide("abcdef"), Ok(()));
    assert!(!format!("{redactor:?}").contains("abcdef"));
}

#[test]
fn a_name_matches_itself_and_the_last_words_of_a_key() {
    let names = Names::usual();
    for secret in [
        "password",
        "PASSWORD",
        "db_password",
        "dbPassword",
        "DBPassword",
        "DB-PASSWORD",
        "user.password",
        "apikey",
        "apiKey",
        "api_key",
        "X-Api-Key",
        "client_secret",
        "clientSecret",
        "aws_secret_access_key",
        "refreshToken",
        "token",
        "Authorization",
        "proxy-authorization",
        "Set-Cookie",
        "privateKey",
        "credentials",
        "passwords",
        "secrets",
        "api_keys",
        "clientSecrets",
        "API_KEYS",
        "tokens",
    ] {
        assert!(names.has(secret), "{secret}");
    }
    for open in [
        "",
        "next_page_token",
        "next_page_tokens",
        "page_token",
        "password_hint",
        "access_key_id",
        "secretary",
        "key",
        "idempotency_key",
        "nonsecret",
        "author",
        "cookies_accepted",
    ] {
        assert!(!names.has(open), "{open}");
    }
    assert!(Names::of([" ", "=", "-"]).is_empty());
    assert!(Names::of(["pin code"]).has("pinCode"));
}

#[test]
fn only_values_under_secret_names_are_hidden() {
    let redactor = Redactor::new(Names::usual());
    for (written, shown) in [
        (r#"{"password":"x","a":1.50}"#, r#"{"password":"[secret]","a":1.50}"#),
        (r#"{ "api_key" : 12345 , "b":[1]}"#, r#"{ "api_key" : "[secret]" , "b":[1]}"#),
        (r#"{"credentials":{"a":["}"],"b":{}},"c":0}"#, r#"{"credentials":"[secret]","c":0}"#),
        (r#"[{"secret":["a","b"]}]"#, r#"[{"secret":"[secret]"}]"#),
        (r#"{"p\u0061ssword":"x"}"#, r#"{"p\u0061ssword":"[secret]"}"#),
    ] {
        assert_eq!(redactor.json(written), shown, "{written}");
        serde_json::from_str::<Value>(shown).unwrap();
    }
    for same in [
        r#"{"password":null,"secret":true,"token":false}"#,
        r#"["password","x"]"#,
        r#"{"a":"password: x"}"#,
        r#"{"next_page_token":"x"}"#,
    ] {
        assert_eq!(redactor.json(same), same);
    }
}

#[test]
fn registered_values_are_hidden_anywhere_in_a_document() {
    let mut redactor = hiding(VALUE);
    redactor.hide("48151623").unwrap();
    let document = json!({ "a": format!("x {VALUE}\n"), VALUE: 48151623, "b": [VALUE, "48151623!"], "c": 5 });
    let shown: Value = serde_json::from_str(&redactor.json(&document.to_string())).unwrap();
    let wanted = json!({ "a": "x [secret]\n", MARK: "[secret]", "b": ["[secret]", "[secret]!"], "c": 5 });
    assert_eq!(shown, wanted);
    let odd = r#"["\u0034\u0038151623"]"#;
    assert_eq!(redactor.json(odd), r#"["[secret]"]"#, "however it is escaped");
}

#[test]
fn redacts_texts_of_a_command_and_lists_its_payloads() {
    let redactor = hiding("opensesame42");
    let payload = Payload::of(&"opensesame42", &Limits::default()).unwrap();
    let failure = || Failure::terminal("opensesame42").with_code("opensesame42");
    let path = Path::new("pay").unwrap();
    let doing = |what| Doing { at: Millis(0), what };
    let doings = vec![
        doing(Owned::Progress { path: path.clone(), ord: 0, message: "opensesame42".into() }),
        doing(Owned::UndoStarted { path: path.clone(), failure: Some(failure()) }),
        doing(Owned::UndoFailed { path: path.clone(), failure: failure() }),
        doing(Owned::Fail(failure())),
        doing(Owned::Park { code: "V1", reason: "opensesame42".into() }),
        doing(Owned::ChangeVersion { to: 2, reason: "opensesame42".into() }),
    ];
    let fence = Fence { epoch: Seq(1), branch: BranchId::ROOT };
    let note = Note { id: "n".into(), by: Some("opensesame42".into()), reason: "opensesame42".into() };
    let task = TaskId::new("t").unwrap();
    let ended = StepEnded { path, attempt: 1, task, fence: 1, result: Err(failure()) };
    let child = RunId::new("c").unwrap();
    for mut command in [
        Command::Owned(fence, doings),
        Command::Cancel(note),
        Command::StepEnded(ended),
        Command::ChildEnded { child, result: Err(failure()) },
    ] {
        assert!(command.payloads().is_empty());
        command.redact(&redactor);
        let text = format!("{command:?}");
        assert!(!text.contains("opensesame42") && text.contains(MARK), "{text}");
    }
    let mut kept = Command::Owned(fence, vec![doing(Owned::Complete(payload.clone()))]);
    kept.redact(&redactor);
    assert_eq!(kept.payloads(), [("output", &payload)]);
}

proptest! {
    #[test]
    fn no_text_keeps_a_registered_value(
        before in ".{0,12}", value in "[a-zA-Z0-9\"\\\\ü/+ ]{6,20}", after in ".{0,12}",
    ) {
        let value = value.trim();
        prop_assume!(value.len() >= VALUE_BYTES_MIN && !MARK.contains(value));
        let redactor = hiding(value);
        let text = format!("{before}{value}{after}");
        prop_assert!(!redactor.text(&text).contains(value));
        let json = json!({ "a": text, "b": [text.as_str()] }).to_string();
        let shown = redactor.json(&json).into_owned();
        let read: Value = serde_json::from_str(&shown).unwrap();
        prop_assert!(!read["a"].as_str().unwrap().contains(value));
        redactor.json(&text);
    }

    #[test]
    fn a_document_without_secrets_is_left_as_it_is(text in "[\\[\\]{}\":,a-z0-9\\\\ \n-]{0,60}") {
        let redactor = Redactor::new(Names::usual());
        if serde_json::from_str::<Value>(&text).is_ok() {
            prop_assert_eq!(&redactor.json(&text), &text);
        } else {
            redactor.json(&text);
        }
    }
}
