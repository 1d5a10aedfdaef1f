//! The table of all settings in `docs/guides/configuring.md`.

use goldseam::unstable::engine::settings::SettingSpec;

use super::fields::all_settings;
use super::layers::{default_text, env_of};

/// Returns every setting as a table in Markdown, by section.
pub fn table() -> String {
    let mut text = String::new();
    let mut section = None;
    for spec in all_settings() {
        if section != Some(spec.section()) {
            section = Some(spec.section());
            let title = match spec.section() {
                "" => "### The server".to_owned(),
                name => format!("### `[{name}]`"),
            };
            text.push_str(&format!(
                "\n{title}\n\n| setting | type and range | default | environment | what |\n|---|---|---|---|---|\n"
            ));
        }
        text.push_str(&row(spec));
    }
    text
}

fn row(spec: &SettingSpec) -> String {
    let older = spec.aliases.iter().filter_map(|alias| alias.name);
    let names: Vec<String> = std::iter::once(spec.name).chain(older).map(code).collect();
    let flag = spec
        .flag
        .map(|flag| format!("; flag {}", code(format!("--{}", flag.trim_start_matches('-')))))
        .unwrap_or_default();
    let kind = spec.kind.name();
    let range = spec.kind.range();
    let allowed = if range.is_empty() { kind.to_owned() } else { format!("{kind}, {range}") };
    let default = Some(default_text(spec)).filter(|text| !text.is_empty()).map(code);
    let env: Vec<String> = env_of(spec).into_iter().map(code).collect();
    let cells = [
        names.join(", "),
        allowed,
        default.unwrap_or_default(),
        env.join(", "),
        format!("{}{flag}", spec.help),
    ];
    format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}

fn code(text: impl AsRef<str>) -> String {
    format!("`{}`", text.as_ref())
}
