//! Passes: a pass lets its holder answer one question or send one signal, once, until it expires.
//!
//! The store keeps nothing per pass. The signed ticket says what the pass allows, and the secret is derived from the
//! ticket. A person presents both; a program signs with the secret, so a ticket in a proxy's log grants nothing. The
//! run's log records the use.
//!
//! Invariant: tickets are signed with at most two secrets, the current and the previous one.

use std::sync::Arc;
use std::time::Duration;

use goldseam::unstable::core::{LockName, SignalName};
use goldseam::unstable::engine::{Clock, Entropy};
use goldseam::unstable::store::{Expect, Store, Written};
use goldseam::{Millis, Path, RunId};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::cached_read::CachedRead;
use super::keys::SecretText;
use super::token::{self, FileSecret, TokenSigner};
use super::{hex, unhex};
use crate::api::RunsApi;
use crate::caller::Caller;
use crate::doc::pass::{CreatedPassDoc, NewPass, RotatedPassesDoc};
use crate::problem::Problem;

/// The lock that holds the current and the previous secret, and the id and time of the last rotation.
const NAME: &str = "goldseam.pass";
/// Token purpose of a ticket.
const PURPOSE: &str = "pass";
/// Prefix of every pass, so that a leaked one can be found by searching.
const MARK: &str = "gsp_";
/// Default validity of a pass.
const VALID: Duration = Duration::from_secs(7 * 24 * 3600);
/// Maximum validity of a pass.
pub const VALID_MAX: Duration = Duration::from_secs(90 * 24 * 3600);
/// Maximum difference between the time in a signature and the server's clock.
pub const WINDOW: Duration = Duration::from_secs(300);
/// Maximum age of the cached secrets.
const FRESH: Duration = Duration::from_secs(1);
/// Attempts to rotate while other writers rotate at the same time.
const TRIES: u32 = 5;

/// Returns whether a credential has the form of a pass.
pub fn is_pass(credential: &str) -> bool {
    credential.starts_with(MARK)
}

/// The action that a pass allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allows {
    /// To answer the question opened at `since`, but not a later question of the same name.
    Answer {
        /// The path of the question.
        question: Path,
        /// When it was opened.
        since: Millis,
    },
    /// To send a signal.
    Signal {
        /// The name of the signal.
        name: SignalName,
    },
}

/// The content of a ticket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// The id of the pass.
    pub id: String,
    /// The namespace of the run.
    pub namespace: String,
    /// The run.
    pub run: RunId,
    /// The action that the pass allows.
    pub allows: Allows,
    /// Name of its creator.
    pub by: Option<String>,
    /// The key that created it. Revoking the key ends the pass.
    #[serde(default)]
    pub key: Option<String>,
    /// When it expires.
    pub expires_at: Millis,
}

/// The creator of a pass.
#[derive(Debug, Clone, Default)]
pub struct PassCreator {
    /// The namespace of the run.
    pub namespace: String,
    /// Name of the user or of the key.
    pub who: Option<String>,
    /// Id of the key; `None` with direct access to the store.
    pub key: Option<String>,
    /// Expiry of the key, which also limits its passes.
    pub key_expires_at: Option<Millis>,
    /// Id of the pass if the request has an idempotency key: a repeat returns the same pass.
    pub once: Option<String>,
}

/// A pass whose ticket was verified.
#[derive(Debug, Clone)]
pub struct OpenedPass {
    /// What its ticket says.
    pub pass: Ticket,
    secret: SecretText,
}

impl OpenedPass {
    /// Compares the secret with the secret of the pass in constant time.
    fn is_opened_by(&self, secret: &str) -> bool {
        self.secret.reveal().as_bytes().ct_eq(secret.as_bytes()).into()
    }

    /// Returns whether `signature` was made with the secret of the pass for this path and body within [`WINDOW`].
    pub fn is_signed(&self, signature: &str, path: &str, body: &[u8], now: Millis) -> bool {
        let Some((time, mac)) = parse_signature(signature) else { return false };
        let age = now.0.abs_diff(time.saturating_mul(1_000));
        let fresh = u128::from(age) <= WINDOW.as_millis();
        let signed = mac_of(self.secret.reveal(), time, path, body).verify_slice(&mac).is_ok();
        signed && fresh
    }
}

/// Parses `t=SECONDS,v1=HMAC`.
fn parse_signature(text: &str) -> Option<(i64, Vec<u8>)> {
    let (time, mac) = text.split_once(',')?;
    Some((time.trim().strip_prefix("t=")?.parse().ok()?, unhex(mac.trim().strip_prefix("v1=")?)?))
}

fn mac_of(secret: &str, time: i64, path: &str, body: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes())
        .unwrap_or_else(|_| unreachable!("HMAC accepts keys of any length"));
    mac.update(format!("{time}.POST.{path}.{}", hex(&Sha256::digest(body))).as_bytes());
    mac
}

/// Creates and verifies passes.
#[derive(Debug)]
pub struct Passes {
    store: Arc<dyn Store>,
    entropy: Arc<dyn Entropy>,
    clock: Arc<dyn Clock>,
    own: FileSecret,
    /// The current and the previous signer of tickets.
    known: CachedRead<Arc<[TokenSigner]>>,
}

impl Passes {
    /// Returns the passes of a store. All servers of the store must have the same `secret_file`, or none.
    pub fn new(
        store: Arc<dyn Store>,
        entropy: Arc<dyn Entropy>,
        clock: Arc<dyn Clock>,
        own: FileSecret,
    ) -> Self {
        let known = CachedRead::new(Arc::clone(&clock));
        Self { store, entropy, clock, own, known }
    }

    /// Creates a pass for a run that `runs` reads.
    pub async fn create(
        &self,
        runs: &dyn RunsApi,
        by: PassCreator,
        run: &RunId,
        new: NewPass,
    ) -> Result<CreatedPassDoc, Problem> {
        let allows = match (new.answer, new.signal) {
            (Some(question), None) => {
                let since = runs.question(run, &question).await?.open.input.since;
                Allows::Answer { question, since }
            }
            (None, Some(name)) => {
                // Fails if the run does not exist.
                runs.questions_of(run).await?;
                Allows::Signal { name }
            }
            _ => return Err(neither()),
        };
        let valid = new.valid_for_ms.map_or(VALID, Duration::from_millis);
        if valid > VALID_MAX {
            return Err(Problem::bad_request("a pass may be valid for at most 90 days")
                .code("GS0608")
                .limit(u64::try_from(VALID_MAX.as_millis()).unwrap_or(u64::MAX)));
        }
        let expires_at = (self.clock.now() + valid).min(by.key_expires_at.unwrap_or(Millis::NEVER));
        let random = || format!("{:016x}{:016x}", self.entropy.next(), self.entropy.next());
        let id = by.once.unwrap_or_else(random);
        let PassCreator { namespace, who, key, .. } = by;
        let pass = Ticket { id, namespace, run: run.clone(), allows, by: who, key, expires_at };
        let tokens = self.tokens().await?;
        let Some(present) = tokens.first() else { return Err(no_secret()) };
        let ticket = present.seal(PURPOSE, "", &pass)?;
        let secret = present.derive(PURPOSE, &ticket);
        Ok(CreatedPassDoc {
            run: pass.run,
            pass: format!("{MARK}{ticket}_{secret}"),
            callback: format!("/v1/callbacks/{ticket}"),
            secret,
            expires_at,
        })
    }

    /// Returns the pass of a credential if the credential is valid now.
    pub async fn check(&self, credential: &str) -> Result<Option<OpenedPass>, Problem> {
        let parts = credential.strip_prefix(MARK).and_then(|rest| rest.split_once('_'));
        let Some((ticket, secret)) = parts else { return Ok(None) };
        Ok(self.open(ticket).await?.filter(|opened| opened.is_opened_by(secret)))
    }

    /// Returns the pass of a ticket if the ticket is valid now. A ticket alone authorises nothing.
    pub async fn open(&self, ticket: &str) -> Result<Option<OpenedPass>, Problem> {
        let open = |tokens: &[TokenSigner]| {
            tokens.iter().find_map(|tokens| {
                let pass: Ticket = tokens.open(PURPOSE, "", ticket)?;
                Some(OpenedPass { pass, secret: SecretText::new(tokens.derive(PURPOSE, ticket)) })
            })
        };
        let opened = open(&self.tokens().await?);
        Ok(opened.filter(|opened| self.clock.now() < opened.pass.expires_at))
    }

    /// Generates a new signing secret. Existing passes stay valid until the next rotation. A repeat under the same
    /// idempotency key does nothing.
    pub async fn rotate(&self, by: &Caller) -> Result<RotatedPassesDoc, Problem> {
        let once = by.command_id("rotate passes", "").unwrap_or_else(|| "-".to_owned());
        for _ in 0..TRIES {
            token::secrets(&*self.store, &*self.entropy, NAME, &self.own).await?;
            let mut lock = token::read(&*self.store, &LockName::new(NAME)?).await?.ok_or_else(no_secret)?;
            let now = self.store.now().await?;
            let expect = Expect::Version(lock.version);
            let kept = lock.holder.take().unwrap_or_default();
            let mut words = kept.split(' ');
            let before = words.next().unwrap_or_default();
            let done = words.nth(1).and_then(|last| last.strip_prefix(once.as_str())?.strip_prefix('@'));
            if let Some(at) = done.filter(|_| by.key.is_some()).and_then(|at| at.parse().ok()) {
                return Ok(RotatedPassesDoc { rotated_at: Millis(at) });
            }
            lock.holder = Some(format!("{} {before} {once}@{}", token::random(&*self.entropy), now.0));
            lock.fence += 1;
            lock.version += 1;
            if self.store.put_lock(lock, expect).await? == Written::Done {
                self.known.forget().await;
                return Ok(RotatedPassesDoc { rotated_at: now });
            }
        }
        Err(Problem::new(
            503,
            "cannot rotate the pass secret: other servers changed it during every attempt; try again",
        ))
    }

    async fn tokens(&self) -> Result<Arc<[TokenSigner]>, Problem> {
        let read = async { Ok(token::secrets(&*self.store, &*self.entropy, NAME, &self.own).await?.into()) };
        self.known.get(FRESH, read).await
    }
}

fn neither() -> Problem {
    Problem::bad_request("a pass allows exactly one action")
        .code("GS0608")
        .hint("set either `answer` to a question or `signal` to a signal name")
}

fn no_secret() -> Problem {
    Problem::new(503, "the store has no secret to sign passes with")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/v1/callbacks/t";

    fn opened() -> OpenedPass {
        let allows = Allows::Signal { name: SignalName::new("paid").unwrap() };
        let run = "r".parse().unwrap();
        let pass = Ticket {
            id: "1".to_owned(),
            namespace: "default".to_owned(),
            run,
            allows,
            by: None,
            key: None,
            expires_at: Millis::NEVER,
        };
        OpenedPass { pass, secret: SecretText::new("s".to_owned()) }
    }

    fn signed(secret: &str, time: i64, path: &str, body: &[u8]) -> String {
        format!("t={time},v1={}", hex(&mac_of(secret, time, path, body).finalize().into_bytes()))
    }

    #[test]
    fn signature_is_valid_for_its_body_and_path_for_5_minutes() {
        let opened = opened();
        let now = Millis(1_000_000_000);
        let holds = |signature: &str, path: &str, body: &[u8], now: Millis| {
            opened.is_signed(signature, path, body, now)
        };
        let good = signed("s", 1_000_000, PATH, b"{}");
        assert!(holds(&good, PATH, b"{}", now));
        assert!(holds(&good, PATH, b"{}", Millis(1_000_300_000)), "five minutes later");
        assert!(holds(&good, PATH, b"{}", Millis(999_700_000)), "signed by a clock that is 5 minutes ahead");
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
