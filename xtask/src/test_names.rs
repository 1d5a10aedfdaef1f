//! The names of the tests in the tree.

use std::collections::BTreeSet;

use crate::source::Source;
use crate::tree::Tree;

/// The names of all tests: functions with a test attribute, names in calls of macros that define tests, and the tests
/// of the Python package and of the dashboard.
pub(crate) fn of(tree: &Tree) -> BTreeSet<String> {
    let sources: Vec<Source> = tree.rust().map(|file| Source::new(&file.text)).collect();
    let makers: BTreeSet<&str> = sources.iter().flat_map(makers).collect();
    let mut names = BTreeSet::new();
    for source in &sources {
        names.extend(marked(source).map(str::to_owned));
        for maker in &makers {
            names.extend(listed(source, maker).map(str::to_owned));
        }
    }
    let python = tree.files.iter().filter(|file| file.path.starts_with("sdk/python/tests/"));
    names.extend(python.flat_map(|file| in_python(&file.text)));
    let browser = tree.files.iter().filter(|file| file.path.starts_with("ui/tests/"));
    names.extend(browser.flat_map(|file| in_browser(&file.text)));
    names
}

/// Asynchronous methods without parameters: the tests that run in a browser.
fn in_browser(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter_map(|line| {
        let (name, rest) = line.trim_start().strip_prefix("async ")?.split_once('(')?;
        let is_test =
            line.starts_with("  ") && rest == ") {" && name.contains('_') && name.chars().all(is_name);
        is_test.then(|| name.to_owned())
    })
}

/// Functions that pytest finds.
fn in_python(text: &str) -> impl Iterator<Item = String> {
    text.lines()
        .filter_map(|line| line.strip_prefix("def test_"))
        .map(|rest| format!("test_{}", first_name(rest)))
}

/// Functions with a test attribute.
fn marked(source: &Source) -> impl Iterator<Item = &str> {
    source.code.match_indices("#[").filter_map(|(at, _)| {
        let attribute = source.bracketed(at + 1);
        let path = source.code[attribute.clone()].trim_matches(['[', ']']).split('(').next()?;
        let rest = &source.code[attribute.end..];
        let body = rest.find(['{', ';'])?;
        let (_, name) = rest[..body].split_once("fn ")?;
        (path.trim().rsplit("::").next() == Some("test")).then(|| first_name(name))
    })
}

/// Macros that define tests.
fn makers(source: &Source) -> impl Iterator<Item = &str> {
    source.find_all("macro_rules!").filter_map(|at| {
        let rest = &source.code[at + "macro_rules!".len()..];
        let body = source.bracketed(at + "macro_rules!".len() + rest.find('{')?);
        let body = &source.code[body];
        (body.contains("#[test]") || body.contains("::test")).then(|| first_name(rest.trim_start()))
    })
}

/// The names in all calls of a macro.
fn listed<'a>(source: &'a Source, maker: &str) -> impl Iterator<Item = &'a str> {
    let call = format!("{maker}!");
    let at: Vec<usize> = source.find_all(&call).map(|at| at + call.len()).collect();
    at.into_iter().flat_map(|at| {
        let open = at + source.code[at..].find(['(', '{', '[']).unwrap_or(0);
        source.code[source.bracketed(open)].split(|c: char| !is_name(c)).filter(|name| !name.is_empty())
    })
}

fn first_name(text: &str) -> &str {
    text.split(|c: char| !is_name(c)).next().unwrap_or_default()
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_tests_of_the_dashboard() {
        let text = "const tests = {\n    async a_page_opens() {\n  async stop(signal) {\nasync free_one() {\n  \
                    async boot() {\n  async b_c() {}\n";
        assert_eq!(in_browser(text).collect::<Vec<_>>(), ["a_page_opens"]);
    }

    #[test]
    fn finds_tests_of_python() {
        let names: Vec<String> =
            in_python("def test_a(url: str) -> None:\n    def test_b():\ndef c():").collect();
        assert_eq!(names, ["test_a"]);
    }

    const CODE: &str = "#[tokio::test(flavor = \"multi_thread\")]\n#[ignore = \"long\"]\nasync fn it_holds() {}\n\
                        async fn saga(ctx: Context) {}\n\
                        macro_rules! stories { ($($name:ident),+) => { $(#[test] fn $name() {})+ }; }\n\
                        stories!(signal, sleep);\nspawn!(child);";

    #[test]
    fn finds_attributed_functions_and_names_in_test_macros() {
        let tests = of(&Tree::of(&[("a.rs", CODE)]));
        for (name, is_test) in
            [("it_holds", true), ("signal", true), ("sleep", true), ("saga", false), ("child", false)]
        {
            assert_eq!(tests.contains(name), is_test, "{name}");
        }
    }
}
