//! Damage of a log: how it is printed, and the exit code.

use goldseam_api::doc::DamageDoc;

use crate::app::App;
use crate::color::Hue;
use crate::error::Exit;
use crate::out;

/// The exit code of a command that showed a log with this damage.
pub(crate) fn exit(damage: &[DamageDoc]) -> Exit {
    if damage.is_empty() { Exit::Ok } else { Exit::Damaged }
}

/// Prints one line for each damaged position.
pub(crate) fn lines(app: &App, damage: &[DamageDoc]) {
    for place in damage {
        out::line(app.colors.apply(Hue::Bad, line(place)));
    }
}

pub(crate) fn line(place: &DamageDoc) -> String {
    let what = if place.newer { "was written by a newer release" } else { "is damaged" };
    format!("event {} {what}: {}", place.seq, place.reason)
}
