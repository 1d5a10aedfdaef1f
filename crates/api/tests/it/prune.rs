//! Prunes through the interface.

use goldseam::admin::retention::{PruneProgress, open_archive, read_archived, verify};
use goldseam_api::doc::retention::{NewPrune, PrunedDoc};
use goldseam_api::doc::run::RunsQuery;
use goldseam_api::{Api, Caller, RunsApi};

use crate::support::Place;

async fn prune(api: &dyn Api, limit: Option<u64>) -> (Result<PrunedDoc, String>, Vec<PruneProgress>) {
    let mut seen = Vec::new();
    let new = NewPrune { limit, ..NewPrune::default() };
    let pruned = api.prune(&Caller::default(), new, &mut |at| seen.push(at)).await;
    (pruned.map_err(|problem| problem.code.unwrap_or_default().into()), seen)
}

#[tokio::test]
async fn a_prune_needs_the_archive_of_the_interface() {
    let place = Place::with(&[("a", "ship"), ("b", "ship"), ("waits", "wait")]).await;
    let (refused, _) = prune(&place.api, None).await;
    assert_eq!(refused.unwrap_err(), "GS0614");
    assert_eq!(place.api.runs(RunsQuery::default()).await.unwrap().items.len(), 3);

    let folder = tempfile::tempdir().unwrap();
    let archive = open_archive(&folder.path().display().to_string()).unwrap();
    let api = place.api.clone().with_archive(archive.into());
    let (first, seen) = prune(&api, Some(1)).await;
    let first = first.unwrap();
    assert_eq!((first.pruned.len(), first.more), (1, true));
    assert_eq!(seen, [PruneProgress { done: 1, total: 1 }]);
    let archived = verify(&read_archived(&first.archives[0]).await.unwrap()).unwrap();
    assert_eq!(archived[0].run, first.pruned[0].run);
    let (second, _) = prune(&api, None).await;
    let second = second.unwrap();
    assert_eq!((second.pruned.len(), second.more), (1, false));
    let (third, seen) = prune(&api, None).await;
    assert_eq!((third.unwrap().pruned.len(), seen.len()), (0, 0), "a repeat is harmless");
}
