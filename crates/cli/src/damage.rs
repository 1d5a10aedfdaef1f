//! Damage of a log as a person sees it, and how a program ends that showed it.

use goldseam_api::doc::Damage;

use crate::app::App;
use crate::fail::Exit;
use crate::out;
use crate::paint::Hue;

/// How a command ends that showed a log with this damage.
pub(crate) fn exit(damage: &[Damage]) -> Exit {
    if damage.is_empty() { Exit::Ok } else { Exit::Damaged }
}

/// What is wrong, one line each, below what was shown.
pub(crate) fn lines(app: &App, damage: &[Damage]) {
    for place in damage {
        out::line(app.paint.on(Hue::Bad, line(place)));
    }
}

/// One place, in words.
pub(crate) fn line(place: &Damage) -> String {
    let what = if place.newer { "cannot be read by this release" } else { "is damaged" };
    format!("event {} {what}: {}", place.seq, place.reason)
}
