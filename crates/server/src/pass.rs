//! Passes: one thing that whoever holds one may do, once, until it expires: answer one question, or send one signal.
//!
//! Nothing is kept for a pass. Its ticket says what it allows and is sealed; its secret follows from the ticket. A
//! person's page shows both; a program signs with the secret, so that a ticket in the log of some proxy opens nothing.
//! That it was used stands in the run's own log.
//!
//! Invariant: there are never more than two secrets that tickets are sealed with: the present one and the one before.

use std::sync::Arc;
use std::time::Duration;

use goldseam::core::{LockName, SignalName};
use goldseam::engine::{Clock, Entropy};
use goldseam::store::{Expect, Store, Written};
use goldseam::{Millis, Path, RunId};
use goldseam_api::doc::pass::{MadePass, NewPass, Rotated};
use goldseam_api::{Api, Caller, Problem};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::cached_read::CachedRead;
use crate::keys::Secret;
use crate::token::{self, FileSecret, Tokens};
use crate::{hex, unhex};

/// The lock that holds what passes are sealed with: the present secret, the one before, and which change made it and when.
const NAME: &str = "goldseam.pass";
/// What the seal of a ticket is for.
const PURPOSE: &str = "pass";
/// Every pass begins like this, so that one that leaked can be searched for.
const MARK: &str = "gsp_";
/// For how long a pass is valid unless said otherwise.
const VALID: Duration = Duration::from_secs(7 * 24 * 3600);
/// For how long it may be.
pub(crate) const VALID_MAX: Duration = Duration::from_secs(90 * 24 * 3600);
/// A signature this old, or this far ahead, is none.
pub(crate) const WINDOW: Duration = Duration::from_secs(300);
/// What passes are sealed with is read again after so long.
const FRESH: Duration = Duration::from_secs(1);
/// How often a change that others make too is tried.
const TRIES: u32 = 5;

/// Whether a credential is meant to be a pass.
pub(crate) fn is_one(credential: &str) -> bool {
    credential.starts_with(MARK)
}

/// What a pass allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Allows {
    /// To answer the question that has been open since then, and not one that is asked again under its name.
    Answer { question: Path, since: Millis },
    /// To send a signal.
    Signal { name: SignalName },
}

/// A pass, as its ticket says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pass {
    pub(crate) id: String,
    pub(crate) namespace: String,
    pub(crate) run: RunId,
    pub(crate) allows: Allows,
    /// Who made it.
    pub(crate) by: Option<String>,
    /// The key that it was made with: revoking that ends it.
    #[serde(default)]
    pub(crate) key: Option<String>,
    pub(crate) expires_at: Millis,
}

/// Who makes a pass.
#[derive(Debug, Clone, Default)]
pub struct Maker {
    /// A user's name, or the name of a key.
    pub who: Option<String>,
    /// The id of that key; none for whoever has the store itself.
    pub key: Option<String>,
    /// When that key expires, and every pass of it.
    pub key_expires_at: Option<Millis>,
    /// Makes a repeat the same pass: used twice, it does one thing.
    pub once: Option<String>,
}

/// A pass whose ticket was opened.
#[derive(Debug, Clone)]
pub(crate) struct OpenedPass {
    pub(crate) pass: Pass,
    secret: Secret,
}

impl OpenedPass {
    /// Whether this is the secret of the pass.
    fn is_opened_by(&self, secret: &str) -> bool {
        self.secret.reveal().as_bytes().ct_eq(secret.as_bytes()).into()
    }

    /// Whether `signature` was made with the secret of the pass, for this body, not long ago.
    pub(crate) fn is_signed(&self, signature: &str, path: &str, body: &[u8], now: Millis) -> bool {
        let Some((time, mac)) = parse_signature(signature) else { return false };
        let age = now.0.abs_diff(time.saturating_mul(1_000));
        let fresh = u128::from(age) <= WINDOW.as_millis();
        let signed = mac_of(self.secret.reveal(), time, path, body).verify_slice(&mac).is_ok();
        signed && fresh
    }
}

/// The time, in seconds, and the code of `t=…,v1=…`.
fn parse_signature(text: &str) -> Option<(i64, Vec<u8>)> {
    let (time, mac) = text.split_once(',')?;
    Some((time.trim().strip_prefix("t=")?.parse().ok()?, unhex(mac.trim().strip_prefix("v1=")?)?))
}

fn mac_of(secret: &str, time: i64, path: &str, body: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes())
        .unwrap_or_else(|_| unreachable!("a key of any length will do"));
    mac.update(format!("{time}.POST.{path}.{}", hex(&Sha256::digest(body))).as_bytes());
    mac
}

/// Makes passes and reads them.
#[derive(Debug)]
pub struct Passes {
    store: Arc<dyn Store>,
    entropy: Arc<dyn Entropy>,
    clock: Arc<dyn Clock>,
    own: FileSecret,
    /// What tickets are sealed with: the present one, and the one before.
    known: CachedRead<Arc<[Tokens]>>,
}

impl Passes {
    /// The passes of this store's servers, which all have the same file with a secret, or none.
    pub fn new(
        store: Arc<dyn Store>,
        entropy: Arc<dyn Entropy>,
        clock: Arc<dyn Clock>,
        own: FileSecret,
    ) -> Self {
        let known = CachedRead::new(Arc::clone(&clock));
        Self { store, entropy, clock, own, known }
    }

    /// Makes a pass for a run of the namespace that `api` reaches.
    pub async fn make(
        &self,
        (namespace, api): (&str, &dyn Api),
        by: Maker,
        run: &RunId,
        new: NewPass,
    ) -> Result<MadePass, Problem> {
        let allows = match (new.answer, new.signal) {
            (Some(question), None) => {
                let since = api.question(run, &question).await?.open.input.since;
                Allows::Answer { question, since }
            }
            (None, Some(name)) => {
                // There must be such a run.
                api.questions_of(run).await?;
                Allows::Signal { name }
            }
            _ => return Err(neither()),
        };
        let valid = new.valid_for_ms.map_or(VALID, Duration::from_millis);
        if valid > VALID_MAX {
            return Err(Problem::bad_request("a pass may be valid for 90 days at most")
                .code("GS0608")
                .limit(u64::try_from(VALID_MAX.as_millis()).unwrap_or(u64::MAX)));
        }
        let expires_at = (self.clock.now() + valid).min(by.key_expires_at.unwrap_or(Millis::NEVER));
        let random = || format!("{:016x}{:016x}", self.entropy.next(), self.entropy.next());
        let id = by.once.unwrap_or_else(random);
        let namespace = namespace.to_owned();
        let (run, by, key) = (run.clone(), by.who, by.key);
        let pass = Pass { id, namespace, run, allows, by, key, expires_at };
        let tokens = self.tokens().await?;
        let Some(present) = tokens.first() else { return Err(no_secret()) };
        let ticket = present.seal(PURPOSE, "", &pass)?;
        let secret = present.derive(PURPOSE, &ticket);
        Ok(MadePass {
            run: pass.run,
            pass: format!("{MARK}{ticket}_{secret}"),
            callback: format!("/v1/callbacks/{ticket}"),
            secret,
            expires_at,
        })
    }

    /// The pass that a credential is, if it is one and valid now.
    pub(crate) async fn check(&self, credential: &str) -> Result<Option<OpenedPass>, Problem> {
        let parts = credential.strip_prefix(MARK).and_then(|rest| rest.split_once('_'));
        let Some((ticket, secret)) = parts else { return Ok(None) };
        Ok(self.open(ticket).await?.filter(|opened| opened.is_opened_by(secret)))
    }

    /// The pass of a ticket, if it is one and valid now. A ticket alone proves nothing.
    pub(crate) async fn open(&self, ticket: &str) -> Result<Option<OpenedPass>, Problem> {
        let open = |tokens: &[Tokens]| {
            tokens.iter().find_map(|tokens| {
                let pass: Pass = tokens.open(PURPOSE, "", ticket)?;
                Some(OpenedPass { pass, secret: Secret::new(tokens.derive(PURPOSE, ticket)) })
            })
        };
        let opened = open(&self.tokens().await?);
        Ok(opened.filter(|opened| self.clock.now() < opened.pass.expires_at))
    }

    /// Seals with something new from now on. What was sealed before is good until this is done once more, and a repeat under
    /// the same idempotency key does nothing.
    pub async fn rotate(&self, by: &Caller) -> Result<Rotated, Problem> {
        let once = by.command_id("rotate passes", "").unwrap_or_else(|| "-".to_owned());
        for _ in 0..TRIES {
            token::secrets(&*self.store, &*self.entropy, NAME, &self.own).await?;
            let mut lock = token::read(&*self.store, &LockName::new(NAME)?).await?.ok_or_else(no_secret)?;
            let (now, expect) = (self.store.now().await?, Expect::Version(lock.version));
            let kept = lock.holder.take().unwrap_or_default();
            let mut words = kept.split(' ');
            let before = words.next().unwrap_or_default();
            let done = words.nth(1).and_then(|last| last.strip_prefix(once.as_str())?.strip_prefix('@'));
            if let Some(at) = done.filter(|_| by.key.is_some()).and_then(|at| at.parse().ok()) {
                return Ok(Rotated { rotated_at: Millis(at) });
            }
            lock.holder = Some(format!("{} {before} {once}@{}", token::random(&*self.entropy), now.0));
            (lock.fence, lock.version) = (lock.fence + 1, lock.version + 1);
            if self.store.put_lock(lock, expect).await? == Written::Done {
                self.known.forget().await;
                return Ok(Rotated { rotated_at: now });
            }
        }
        Err(Problem::new(503, "what passes are sealed with changed under every try; try again"))
    }

    async fn tokens(&self) -> Result<Arc<[Tokens]>, Problem> {
        let read = async { Ok(token::secrets(&*self.store, &*self.entropy, NAME, &self.own).await?.into()) };
        self.known.get(FRESH, read).await
    }
}

fn neither() -> Problem {
    Problem::bad_request("a pass allows exactly one thing")
        .code("GS0608")
        .hint("name the question in `answer`, or the signal in `signal`")
}

fn no_secret() -> Problem {
    Problem::new(503, "the store has nothing to seal passes with")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/v1/callbacks/t";

    fn opened() -> OpenedPass {
        let allows = Allows::Signal { name: SignalName::new("paid").unwrap() };
        let run = "r".parse().unwrap();
        let (id, namespace) = ("1".to_owned(), "default".to_owned());
        let pass = Pass { id, namespace, run, allows, by: None, key: None, expires_at: Millis::NEVER };
        OpenedPass { pass, secret: Secret::new("s".to_owned()) }
    }

    fn signed(secret: &str, time: i64, path: &str, body: &[u8]) -> String {
        format!("t={time},v1={}", hex(&mac_of(secret, time, path, body).finalize().into_bytes()))
    }

    #[test]
    fn a_signature_is_good_for_its_body_its_path_and_five_minutes() {
        let (opened, now) = (opened(), Millis(1_000_000_000));
        let holds = |signature: &str, path: &str, body: &[u8], now: Millis| {
            opened.is_signed(signature, path, body, now)
        };
        let good = signed("s", 1_000_000, PATH, b"{}");
        assert!(holds(&good, PATH, b"{}", now));
        assert!(holds(&good, PATH, b"{}", Millis(1_000_300_000)), "five minutes later");
        assert!(holds(&good, PATH, b"{}", Millis(999_700_000)), "by a clock that is behind");
        assert!(!holds(&good, PATH, b"{}", Millis(1_000_300_001)), "too old");
        assert!(!holds(&good, PATH, b"{}", Millis(999_699_999)), "too early");
        assert!(!holds(&good, PATH, b"{ }", now), "another body");
        assert!(!holds(&good, "/v1/callbacks/u", b"{}", now), "another path");
        assert!(!holds(&signed("x", 1_000_000, PATH, b"{}"), PATH, b"{}", now), "another secret");
        let mac = good.split_once("v1=").unwrap().1;
        for bad in
            ["", "t=1000000", "v1=00", &format!("t=1000001,v1={mac}"), &format!("t=x,v1={mac}"), &good[..70]]
        {
            assert!(!holds(bad, PATH, b"{}", now), "{bad}");
        }
    }
}
