//! Every example is run, twice on the same store: the second time its runs are there already.

use crate::support::Scratch;

#[path = "../../../../examples/agent_loop.rs"]
#[expect(dead_code, reason = "its `main` is for people")]
mod agent_loop;
#[path = "../../../../examples/fan_out.rs"]
#[expect(dead_code, reason = "its `main` is for people")]
mod fan_out;
#[path = "../../../../examples/hello.rs"]
#[expect(dead_code, reason = "its `main` is for people")]
mod hello;
#[path = "../../../../examples/human_approval.rs"]
#[expect(dead_code, reason = "its `main` is for people")]
mod human_approval;
#[path = "../../../../examples/long_sleep.rs"]
#[expect(dead_code, reason = "its `main` is for people")]
mod long_sleep;
#[path = "../../../../examples/order_saga.rs"]
#[expect(dead_code, reason = "its `main` is for people")]
mod order_saga;

#[path = "../../../../examples/remote_step.rs"]
#[expect(dead_code, reason = "its `main` is for people")]
mod remote_step;

#[tokio::test]
async fn example_hello_runs_and_runs_again() {
    let scratch = Scratch::new();
    for _ in 0..2 {
        assert_eq!(hello::run(&scratch.url()).await.unwrap(), "Hello, Ada!");
    }
}

#[tokio::test]
async fn example_order_saga_runs_and_runs_again() {
    let scratch = Scratch::new();
    for _ in 0..2 {
        assert_eq!(
            order_saga::run(&scratch.url()).await.unwrap(),
            "label for hold on a lamp; order-2: step charge failed: card declined, 2 steps undone"
        );
    }
}

#[tokio::test]
async fn example_human_approval_runs_and_runs_again() {
    let scratch = Scratch::new();
    for _ in 0..2 {
        assert_eq!(human_approval::run(&scratch.url()).await.unwrap(), "perhaps refused: true; paid 250");
    }
}

#[tokio::test]
async fn example_fan_out_runs_and_runs_again() {
    let scratch = Scratch::new();
    for _ in 0..2 {
        assert_eq!(fan_out::run(&scratch.url()).await.unwrap(), "cat@2x emu@2x dog@2x");
    }
}

#[tokio::test]
async fn example_long_sleep_runs_and_runs_again() {
    let scratch = Scratch::new();
    for _ in 0..2 {
        assert_eq!(long_sleep::run(&scratch.url()).await.unwrap(), "to ada: your trial ends");
    }
}

#[tokio::test]
async fn example_agent_loop_runs_and_runs_again() {
    let scratch = Scratch::new();
    for _ in 0..2 {
        assert_eq!(agent_loop::run(&scratch.url()).await.unwrap(), "find the way: looked around, go left");
    }
}

#[tokio::test]
async fn example_remote_step_runs_and_runs_again() {
    let scratch = Scratch::new();
    for _ in 0..2 {
        assert_eq!(remote_step::run(&scratch.url()).await.unwrap(), "cat.png@200");
    }
}
