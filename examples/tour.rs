//! A tour of everything that a workflow can do: an order from its draft to its delivery. It plays all parts itself
//! (customers, a clerk, a printing worker), and runs to its end.
//!
//! `cargo run -p goldseam --example tour`, then `goldseam --store sqlite:tour.db show order-1`

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use goldseam::prelude::*;
use goldseam::queue::{QueueName, Want};
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct Order {
    customer: String,
    lines: Vec<Line>,
    card: String,
}

#[derive(Clone, Serialize, Deserialize)]
struct Line {
    item: String,
    cents: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Receipt {
    cents: u64,
    parcels: Vec<String>,
    label: String,
}

#[derive(Serialize, Deserialize)]
struct Address {
    city: String,
}

/// The workflow: each operation is recorded once, and returns its recorded result in a replay.
async fn checkout(ctx: Context, order: Order) -> goldseam::Result<Receipt> {
    // Values to search by, and log lines that a replay does not repeat.
    ctx.set_attribute("customer", order.customer.as_str()).await?;
    goldseam::info!(ctx, "an order of {} lines", order.lines.len());

    // A step whose effect is undone if the run fails later.
    let hold = ctx.step("reserve", || reserve(&order)).compensate(release).await?;

    // A step that is retried, with a key by which the bank recognises a repetition.
    let cents: u64 = order.lines.iter().map(|line| line.cents).sum();
    let charge = ctx.step_with("charge", |attempt| charge(&order, cents, attempt));
    charge.retry(Retry::fixed(Duration::from_millis(5)).attempts_max(3)).timeout(secs(30)).await?;

    // A signal that may come early, and a deadline.
    let to: Address = ctx.signal("address").timeout(days(7)).await?;

    // A question to a person, for expensive orders.
    if cents > 10_000 && !ctx.ask::<bool>("approve", format!("Ship {cents} cents to {}?", to.city)).await? {
        return Err(Error::terminal("the clerk refused the order"));
    }

    // A pause that survives restarts.
    ctx.sleep("cool-off", Duration::from_millis(10)).await?;
    ctx.progress("packing").await?;

    // Many steps at the same time, at most two at once.
    let lines = order.lines.iter().map(|line| ctx.step(("pick", &line.item), move || pick(line)));
    let items = ctx.join(lines).at_most(2).await?;

    // A child run for each item, and the first of its end and a complaint.
    let mut parcels = Vec::new();
    for item in &items {
        let child = ctx.child::<String>(("pack", item), "pack", item).start().await?;
        match ctx.select(("packed", item)).child(&child).signal("call-off").await? {
            Selected::Child { result: Ok(parcel), .. } => parcels.push(parcel.read()?),
            _ => return Err(Error::terminal(format!("{item} was not packed"))),
        }
    }

    // A step of another program, which claims it as a task.
    let label: String = ctx.remote("print-label", &format!("{hold} to {}", to.city)).queue("printer").await?;

    // A change of the code, which runs that are already past this place do not make.
    if ctx.changed("thank-you-card").await? {
        ctx.step("card", || async { Ok(()) }).await?;
    }
    Ok(Receipt { cents, parcels, label })
}

async fn reserve(order: &Order) -> goldseam::Result<String> {
    Ok(format!("{} items for {}", order.lines.len(), order.customer))
}

async fn release(_hold: String) -> goldseam::Result<()> {
    Ok(())
}

async fn charge(order: &Order, cents: u64, attempt: Attempt) -> goldseam::Result<String> {
    match (order.card.as_str(), attempt.number()) {
        ("stolen", _) => Err(Error::terminal("card declined")),
        (_, 1) => Err(Error::retryable("the bank is busy")),
        _ => Ok(format!("{cents} with key {}", attempt.idempotency_key())),
    }
}

async fn pick(line: &Line) -> goldseam::Result<String> {
    Ok(line.item.clone())
}

/// The workflow of the child runs.
async fn pack(ctx: Context, item: String) -> goldseam::Result<String> {
    ctx.step("wrap", || async { Ok(format!("parcel with {item}")) }).await
}

/// Does the part of the printing worker until the run has ended.
async fn print_labels(run: &RunHandle<Receipt>, client: &Client) -> goldseam::Result<()> {
    let queue = client.queue();
    let printer = QueueName::new("printer")?;
    loop {
        run.wait_until(|run| run.status == Status::Waiting).await?;
        let want = Want { owner: "printer-1".to_owned(), queue: printer.clone(), kind: None, limit: 1 };
        for task in queue.claim(want).await? {
            queue.complete(&task.id, task.fence, task.payload.clone()).await?;
        }
        if run.status().await?.is_terminal() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn order(customer: &str, card: &str) -> Order {
    let line = |item: &str, cents| Line { item: item.into(), cents };
    Order {
        customer: customer.into(),
        lines: vec![line("lamp", 12_000), line("bulb", 300)],
        card: card.into(),
    }
}

/// Runs the example on the store at `url`: one order arrives, another one is undone.
pub(crate) async fn run(url: &str) -> goldseam::Result<String> {
    let open = || async {
        Engine::open(url).await?.workflow("checkout", checkout).workflow("pack", pack).start().await
    };
    let engine = open().await?;
    let options = StartOptions::default().tag("shop", "tour").priority(1);
    let first = engine.start_with(checkout, "order-1", &order("Ada", "good"), options).await?;
    first.wait_until(|run| run.status == Status::Waiting).await?;
    // The process dies. Another one continues the run, which still waits for its address.
    engine.crash();
    let engine = open().await?;
    let first = engine.start(checkout, "order-1", &order("Ada", "good")).await?; // the same id is the same run
    // If the example runs a second time, the runs have ended and refuse signals and answers.
    let _ = first.signal("address", &Address { city: "Kyoto".into() }).await;
    first.wait_until(|run| !run.inputs.is_empty()).await?;
    let _ = first.answer("approve", &true).await;
    print_labels(&first, engine.client()).await?;
    let receipt = first.result().await?;

    let second = engine.start(checkout, "order-2", &order("Bob", "stolen")).await?;
    let failed = match second.result().await {
        Err(EngineError::Ended { status: Status::Failed, failure, .. }) => failure.message,
        other => format!("{other:?}"),
    };
    let undone = second.history().await?;
    let undone = undone.iter().filter(|recorded| recorded.event.name() == "compensation.completed").count();
    let of_ada = engine.client().search(r#"customer = "Ada""#)?.count().await?;
    engine.shutdown().await;
    let Receipt { cents, parcels, label } = receipt;
    let arrived = format!("{cents} cents, {}, label {label:?}", parcels.join(" and "));
    Ok(format!("order-1: {arrived}; order-2: {failed}, {undone} undone; orders of Ada: {of_ada}"))
}

#[tokio::main]
async fn main() -> goldseam::Result<()> {
    println!("{}", run("sqlite:tour.db").await?);
    Ok(())
}
