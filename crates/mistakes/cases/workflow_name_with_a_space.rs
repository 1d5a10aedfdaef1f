use goldseam::prelude::*;

const CHECKOUT: Workflow<u64, String> = Workflow::named("check out");

fn main() {
    let _ = CHECKOUT;
}
