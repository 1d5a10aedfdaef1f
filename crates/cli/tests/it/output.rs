//! Complete output, warnings about cut output, and errors that say what to do.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::support::{Guarded, Place, Ran, prepared};

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let place = prepared();
    for args in
        [&["ls"][..], &["ls", "--json"], &["show", "done"], &["history", "done", "--jsonl"], &["--help"]]
    {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ran = Ran::of(&place.command(args).stdout(full).output().unwrap());
        assert_eq!(ran.code, 1, "{args:?}: {}", ran.err);
        assert!(ran.err.contains("cannot write the output: "), "{args:?}: {}", ran.err);
        assert_eq!(ran.err.starts_with('{'), args.iter().any(|arg| arg.starts_with("--json")), "{}", ran.err);
    }
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let place = prepared();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ran = Ran::of(&place.command(&["history", "done"]).stdout(writer).output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn lists_of_ids_are_complete_and_cut_lists_warn() {
    let place = Place::new();
    for number in 0..53 {
        place.run(&["start", "order", "--id", &format!("r-{number}")]).ok();
    }
    let whole = place.run(&["ls", "-q"]);
    assert_eq!((whole.out.lines().count(), whole.err.as_str()), (53, ""));
    for args in [&["ls"][..], &["ls", "--jsonl"]] {
        let ran = place.run(args);
        assert!(ran.err.contains("only the first 50 are shown"), "{args:?}: {}", ran.err);
        assert!(ran.err.contains("--limit"), "{args:?}: {}", ran.err);
    }
    let ran = place.run(&["ls", "-q", "--limit", "7"]);
    assert_eq!((ran.out.lines().count(), ran.err.contains("only the first 7")), (7, true), "{}", ran.err);
    let page = place.run(&["ls", "--json"]);
    assert_eq!(page.err, "", "a page has `next`");
    assert!(page.json()["next"].is_string());
    let all = place.run(&["ls", "--limit", "100"]);
    assert_eq!((all.out.lines().count(), all.err.as_str()), (54, ""));
}

#[test]
fn cut_lists_of_tasks_and_locks_warn() {
    let place = Place::new();
    for name in ["a", "b", "c"] {
        place.run(&["queue", "submit", "mail", "--id", name]).ok();
        place.run(&["lock", "acquire", name, "--holder", "me"]).ok();
    }
    for list in [&["queue", "ls"][..], &["lock", "ls"]] {
        let ran = place.run(&[list, &["-q", "--limit", "2"]].concat());
        assert_eq!((ran.out.as_str(), ran.err.contains("only the first 2")), ("a\nb\n", true), "{}", ran.err);
        assert!(place.run(&[list, &["--json", "--limit", "2"]].concat()).json()["next"].is_string());
        assert_eq!(place.run(&[list, &["-q"]].concat()).err, "");
    }
}

#[test]
fn explain_accepts_a_pasted_error() {
    let place = Place::new();
    for text in ["error[GS0104]", "error[GS0104]: run x", "[GS0104]", "gs104"] {
        assert!(place.run(&["explain", text]).ok().starts_with("# GS0104: "), "{text}");
    }
    let ran = place.run(&["explain", "XX"]);
    assert_eq!((ran.code, ran.err.contains("did you mean")), (3, false), "{}", ran.err);
}

#[test]
fn similar_words_are_suggested() {
    let place = prepared();
    for (args, meant) in [
        (&["ls", "--status", "faild"][..], "did you mean failed?"),
        (&["queue", "ls", "--state", "redy"], "did you mean ready?"),
        (&["doctor", "--rule", "a9"], "did you mean A1"),
        (&["serve", "--set", "lisen=127.0.0.1:0"], "did you mean listen?"),
        (&["shwo", "x"], "'show'"),
    ] {
        let ran = place.run(args);
        assert_eq!((ran.code, ran.err.contains(meant)), (2, true), "{args:?}: {}", ran.err);
    }
}

#[test]
fn hints_match_the_command() {
    let place = prepared();
    let err = |args: &[&str]| place.run(args).err;
    assert!(!err(&["signal", "waits", "paid", "--data", "@nofile"]).contains("--input"));
    assert!(!err(&["diff", "done", "1", "2"]).contains("--branch"));
    assert!(!err(&["serve", "--set", "listen"]).contains("tag"));
    assert!(err(&["prune", "--verify", "nofile"]).contains("that goldseam prune wrote"));
    let pass = err(&["pass", "create", "waits"]);
    assert!(pass.contains("--answer") && pass.contains("--signal"), "{pass}");
}

/// A server that is not Goldseam: it answers every request with the same bytes.
fn foreign(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answers = move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut asked = [0; 4096];
            let _ = stream.read(&mut asked);
            let _ = stream.write_all(answer.as_bytes());
        }
    };
    std::thread::Builder::new().name("foreign".to_owned()).spawn(answers).unwrap();
    url
}

#[test]
fn a_foreign_server_is_reported() {
    let place = Place::new();
    for head in ["404 Not Found", "200 OK", "403 Forbidden"] {
        let answer: &'static str = format!(
            "HTTP/1.1 {head}\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<!doctype html><html><body>x</body></html>"
        )
        .leak();
        let ran = place.run(&["ls", "--server", &foreign(answer)]);
        assert_eq!((ran.code, ran.err.contains("Goldseam server")), (7, true), "{}", ran.err);
        assert!(!ran.err.contains("<html>") && ran.err.contains("HTML page"), "{}", ran.err);
    }
    let url = foreign("HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n").replace("http:", "https:");
    let ran = place.run(&["ls", "--server", &url]);
    assert_eq!((ran.code, ran.err.contains("use http://")), (7, true), "{}", ran.err);
}

#[test]
fn colours_follow_the_option_and_the_terminal() {
    let place = prepared();
    assert!(place.run(&["ls", "--color", "always"]).ok().contains("\x1b[31mfailed\x1b[0m"));
    assert!(!place.run(&["ls"]).ok().contains('\x1b'));
    assert!(on_terminal(&place, &["ls"], "xterm").contains("\x1b["));
    assert!(!on_terminal(&place, &["ls"], "dumb").contains('\x1b'));
}

#[test]
fn no_line_is_wider_than_a_narrow_terminal() {
    let place = prepared();
    let long = "r".repeat(120);
    place.run(&["start", "order", "--id", &long]).ok();
    place.run(&["queue", "submit", "mail", "--id", "t-1"]).ok();
    for args in [
        &["ls"][..],
        &["nodes", "--all"],
        &["workflows"],
        &["questions"],
        &["tasks"],
        &["history", "done"],
        &["recoveries"],
        &["show", "done"],
        &["show", "failed"],
        &["doctor"],
    ] {
        for width in [40, 60, 80] {
            let (mut child, mut ours) = begun_on_terminal_of(&place, args, "dumb", width);
            let screen = String::from_utf8_lossy(&rest_of(&mut ours)).into_owned();
            child.0.wait().unwrap();
            assert!(!screen.trim().is_empty(), "{args:?}");
            for line in screen.lines() {
                let line = line.trim_end_matches('\r');
                assert!(line.chars().count() <= usize::from(width), "{args:?} at {width}: {line:?}");
            }
        }
    }
    let (mut child, mut ours) = begun_on_terminal_of(&place, &["ls"], "dumb", 40);
    let screen = String::from_utf8_lossy(&rest_of(&mut ours)).into_owned();
    child.0.wait().unwrap();
    assert!(screen.contains("failed") && screen.contains("waits"), "{screen}");
}

#[test]
fn redrawn_output_uses_the_alternate_screen() {
    let place = prepared();
    let screen = on_terminal(&place, &["watch", "done"], "xterm");
    let entered = screen.find("\x1b[?1049h");
    let left = screen.find("\x1b[?1049l");
    assert!(entered.is_some() && entered < left, "{screen:?}");
    assert!(!screen.contains("\x1b[3J"), "the scrollback stays: {screen:?}");
    assert!(screen[left.unwrap()..].contains("completed"), "the last picture stays: {screen:?}");
    let plain = on_terminal(&place, &["watch", "done"], "dumb");
    assert!(!plain.contains('\x1b') && plain.contains("run.completed"), "{plain:?}");
}

#[test]
fn signals_restore_the_screen() {
    let place = prepared();
    for args in [&["watch", "waits"][..], &["ls", "-w"]] {
        for (signal, exit) in [(Signal::TERM, 143), (Signal::INT, 130)] {
            let (screen, code) = until_screen(&place, args, signal);
            let entered = screen.find("\x1b[?1049h");
            let left = screen.rfind("\x1b[?1049l");
            assert!(entered.is_some() && entered < left, "{args:?} {signal:?}: {screen:?}");
            assert_eq!(code, Some(exit), "{args:?} {signal:?}");
        }
    }
}

#[test]
fn usage_lines_omit_options_from_the_environment() {
    let place = Place::with_store("sqlite:named.db".to_owned());
    for args in [&["show"][..], &["answer", "run"], &["ls", "--nonsense"]] {
        let ran =
            Ran::of(&place.command(args).env("GOLDSEAM_SERVER", "http://127.0.0.1:1").output().unwrap());
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains("Usage: ") && !ran.err.contains("<URL>"), "{args:?}: {}", ran.err);
    }
    assert!(place.run(&["show", "--help"]).ok().contains("GOLDSEAM_STORE"), "help still names it");
}

/// The output of a command on a terminal of this kind.
fn on_terminal(place: &Place, args: &[&str], term: &str) -> String {
    let (mut child, mut ours) = begun_on_terminal(place, args, term);
    let screen = rest_of(&mut ours);
    child.0.wait().unwrap();
    String::from_utf8_lossy(&screen).into_owned()
}

/// The output of a command on a terminal, and its exit code, if it gets a signal after the first output.
fn until_screen(place: &Place, args: &[&str], signal: Signal) -> (String, Option<i32>) {
    let (mut child, mut ours) = begun_on_terminal(place, args, "xterm");
    let mut screen = Vec::new();
    let mut some = [0; 4096];
    while !String::from_utf8_lossy(&screen).contains("waits") {
        let count = ours.read(&mut some).unwrap();
        screen.extend_from_slice(&some[..count]);
    }
    let id = Pid::from_raw(i32::try_from(child.0.id()).unwrap()).unwrap();
    kill_process(id, signal).unwrap();
    screen.extend(rest_of(&mut ours));
    (String::from_utf8_lossy(&screen).into_owned(), child.0.wait().unwrap().code())
}

/// Reads until the last writer closes the terminal, which Linux reports as an error.
fn rest_of(ours: &mut File) -> Vec<u8> {
    let mut screen = Vec::new();
    let mut some = [0; 4096];
    while let Ok(count @ 1..) = ours.read(&mut some) {
        screen.extend_from_slice(&some[..count]);
    }
    screen
}

/// Starts a command on a terminal, and returns our end of it.
fn begun_on_terminal(place: &Place, args: &[&str], term: &str) -> (Guarded, File) {
    begun_on_terminal_of(place, args, term, 0)
}

/// Starts a command on a terminal with this width; 0 if the terminal does not report one.
fn begun_on_terminal_of(place: &Place, args: &[&str], term: &str, width: u16) -> (Guarded, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let size = rustix::termios::Winsize { ws_row: 24, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&theirs, size).unwrap();
    let mut command = place.command(args);
    command.env("TERM", term).stdout(theirs).stderr(Stdio::null());
    let child = Guarded(command.spawn().unwrap());
    (child, File::from(ours))
}
