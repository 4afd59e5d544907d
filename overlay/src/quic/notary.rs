//! Signing with the key of the node's certificate, and judging the signatures of others.
//!
//! A node signs statements for three purposes: the content of a packet, the boot of its life, and
//! its goodbye. Each purpose has a context of its own, so that no statement can be used as one of
//! another purpose.
//!
//! The reader of a signature may never have met its signer. So the certificate goes with the
//! signature, and the chain to the authorities that all members believe:
//!
//! ```text
//!   | scheme (2) | length (2) | signature | then each certificate: length (2) | DER |
//! ```
//!
//! A chain must name the claimed signer, and is judged as in a handshake. If the signature is valid
//! as well, the chain is remembered, so that the steady cost is one signature check. A peer that
//! brings bad chains is limited. The scheme is one of TLS 1.3. The bytes that TLS itself signs
//! begin with 64 spaces; the bytes of these statements do not.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use rustls::SignatureScheme;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::sign::Signer;
use rustls_pki_types::{CertificateDer, UnixTime};
use webpki::EndEntityCert;

use super::chain_cache::{ChainCache, Failures};
use super::identity::{Identity, Subject, valid_for};
use super::tls::Judge;
use crate::PeerId;

/// The content of a signed statement. The signed bytes begin with the context of the purpose.
#[derive(Debug, Clone, Copy)]
enum Statement<'a> {
    /// The signer is the origin of a packet whose content has this digest.
    Content(&'a [u8; 32]),
    /// A process of this identity lives under this boot.
    Life(PeerId, u64),
    /// The process of this identity and boot leaves.
    Goodbye(PeerId, u64),
}

impl Statement<'_> {
    /// The bytes that are signed. No context is the beginning of another.
    fn bytes(self) -> Vec<u8> {
        let of_life = |context: &[u8], peer: PeerId, boot: u64| {
            [context, peer.as_bytes(), &boot.to_be_bytes()].concat()
        };
        match self {
            Self::Content(digest) => [&b"binomesh: content of a packet\0"[..], digest].concat(),
            Self::Life(peer, boot) => of_life(b"binomesh: life of a process\0", peer, boot),
            Self::Goodbye(peer, boot) => of_life(b"binomesh: goodbye of a process\0", peer, boot),
        }
    }
}

/// The schemes for signing and checking, each bound to a curve or a hash.
const SCHEMES: [SignatureScheme; 6] = [
    SignatureScheme::ED25519,
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA512,
];

/// Signs for a node, and judges the signatures of others.
#[derive(Debug)]
pub struct Notary {
    me: PeerId,
    /// The signing key; none if it fits no scheme, or the chain is too long to go with a signature.
    signer: Option<Box<dyn Signer>>,
    signs_content: bool,
    /// The node's own chain in the form in which it travels.
    chain: Bytes,
    judge: Judge,
    algorithms: WebPkiSupportedAlgorithms,
    chains: ChainCache,
    /// The last refused chain of each signer, kept for a while.
    refused: ChainCache,
    failures: Failures,
    chains_judged: u64,
}

/// Why a node cannot sign, or judge signatures.
#[derive(Debug, thiserror::Error)]
pub enum NotaryError {
    /// TLS does not accept the key or the authorities.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The key fits no scheme of this module.
    #[error("the key has no signature scheme of TLS 1.3")]
    NoScheme,
    /// The chain is too long to go with every message.
    #[error("the certificate chain, which signed messages carry, is too long ({0} bytes); at most {max} bytes and {most} certificates are allowed", max = Notary::MAX_CHAIN, most = Notary::MAX_CERTIFICATES)]
    ChainTooLong(usize),
}

/// Why a signature is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Forged {
    /// The bytes are not laid out as a signature, or exceed its bounds.
    #[error("the signature is malformed")]
    Malformed,
    /// The certificate is not accepted.
    #[error("the signer's certificate is not accepted: {0}")]
    Certificate(String),
    /// The certificate belongs to another peer.
    #[error("the signature is of {0}, not of the named peer")]
    OtherSigner(PeerId),
    /// The signature is not by the certificate's key, not for this statement, or of an unknown
    /// scheme.
    #[error("the signature does not match the signed statement")]
    Content,
    /// The chain was refused a moment ago, and is not judged again yet.
    #[error("the signer's certificate was refused a moment ago")]
    RefusedBefore,
    /// The chain is not judged now, since the peer that brought it has brought too many bad chains.
    #[error("the certificate was not checked, since too many others of this link were not valid")]
    Unjudged,
}

impl Forged {
    /// Whether the chain was not judged this time.
    pub const fn is_without_judgement(&self) -> bool {
        matches!(self, Self::RefusedBefore | Self::Unjudged)
    }
}

impl Notary {
    /// The longest bare signature: RSA with 4096 bits.
    pub const MAX_SIGNATURE: usize = 512;
    /// The longest chain, with the lengths of its certificates.
    pub const MAX_CHAIN: usize = 8 << 10;
    /// The most certificates of a chain: a leaf and two intermediates. The search for a path tries
    /// each order of the certificates whose names fit, at the cost of one signature check each, and
    /// remembers no failed order. A forged chain of eight would cost a hundred checks.
    pub const MAX_CERTIFICATES: usize = 3;
    /// For how many signers the last judged chain is remembered; beyond that the oldest is judged
    /// again. Also for how many peers bad chains are counted.
    pub const MAX_JUDGED: usize = 1024;
    /// How many bad chains of one peer's links are judged at once. After that one more is judged
    /// each second, and other chains are believed only if they are remembered. A guess: a liar
    /// costs at most some milliseconds, and then less than its packets do.
    pub const MAX_FAILURES: u64 = 16;
    /// For how many seconds a signer's refused chain is not judged again. Other nodes may still
    /// believe the chain and pass it on, and must not use up their links' allowance with it. A
    /// guess: with fewer they use it up, with more a chain that becomes valid is refused longer.
    const REFUSED_SECONDS: u64 = 10;

    /// The longest statement of a life or a goodbye, with its chain.
    pub const MAX_STATEMENT: usize = 4 + Self::MAX_SIGNATURE + Self::MAX_CHAIN;

    /// A notary that believes the authorities of `identity`, and signs with its key: lives and
    /// goodbyes always, contents if `signs_content`. With a key that fits no scheme, or a chain
    /// that is too long to travel, it signs nothing. That is an error only if it has to sign
    /// contents.
    pub fn new(identity: &Identity, signs_content: bool) -> Result<Self, NotaryError> {
        let provider = rustls::crypto::ring::default_provider();
        let (signer, chain) = match (signer(identity, &provider), chain(identity)) {
            (Ok(signer), Ok(chain)) => (Some(signer), chain),
            (Err(error), _) | (_, Err(error)) if signs_content => return Err(error),
            _ => (None, Bytes::new()),
        };
        Ok(Self {
            me: identity.id(),
            signer,
            signs_content,
            chain,
            judge: Judge::new(identity)?,
            algorithms: provider.signature_verification_algorithms,
            chains: ChainCache::default(),
            refused: ChainCache::default(),
            failures: Failures::default(),
            chains_judged: 0,
        })
    }

    /// Sign the content of a packet, by its digest; `None` if this node signs no contents, or the
    /// key fails.
    pub fn sign(&self, digest: &[u8; 32]) -> Option<Bytes> {
        self.signs_content
            .then(|| self.state(Statement::Content(digest)))?
    }

    /// State that a process of this identity lives under this boot; `None` if the key
    /// fails, or its chain is too long to travel.
    pub fn sign_life(&self, boot: u64) -> Option<Bytes> {
        self.state(Statement::Life(self.me, boot))
    }

    /// State that the process of this identity and boot leaves; `None` as in
    /// [`Self::sign_life`].
    pub fn sign_goodbye(&self, boot: u64) -> Option<Bytes> {
        self.state(Statement::Goodbye(self.me, boot))
    }

    /// Whether `origin` has signed the content with this digest. The signature came over
    /// the link to `from`.
    pub fn verify(
        &mut self,
        from: PeerId,
        origin: PeerId,
        digest: &[u8; 32],
        signature: &[u8],
    ) -> Result<(), Forged> {
        self.judge(from, origin, Statement::Content(digest), signature)
    }

    /// Whether `peer` has stated that it lives under this boot. The statement came over the
    /// link to `from`.
    pub fn verify_life(
        &mut self,
        from: PeerId,
        peer: PeerId,
        boot: u64,
        statement: &[u8],
    ) -> Result<(), Forged> {
        self.judge(from, peer, Statement::Life(peer, boot), statement)
    }

    /// Whether `peer` has stated that its process of this boot leaves. The statement came
    /// over the link to `from`.
    pub fn verify_goodbye(
        &mut self,
        from: PeerId,
        peer: PeerId,
        boot: u64,
        statement: &[u8],
    ) -> Result<(), Forged> {
        self.judge(from, peer, Statement::Goodbye(peer, boot), statement)
    }

    /// How many chains the notary has judged so far, without remembered ones.
    pub const fn chains_judged(&self) -> u64 {
        self.chains_judged
    }

    /// Sign a statement, in the form in which the signature travels.
    fn state(&self, statement: Statement<'_>) -> Option<Bytes> {
        let signer = self.signer.as_ref()?;
        let signature = signer.sign(&statement.bytes()).ok()?;
        if signature.len() > Self::MAX_SIGNATURE {
            return None;
        }
        let mut bytes = BytesMut::with_capacity(4 + signature.len() + self.chain.len());
        bytes.put_u16(signer.scheme().into());
        bytes.put_u16(signature.len() as u16);
        bytes.put_slice(&signature);
        bytes.put_slice(&self.chain);
        Some(bytes.freeze())
    }

    fn judge(
        &mut self,
        from: PeerId,
        origin: PeerId,
        statement: Statement<'_>,
        signature: &[u8],
    ) -> Result<(), Forged> {
        let parts = Parts::parse(signature).ok_or(Forged::Malformed)?;
        let now = UnixTime::now().as_secs();
        let name = *blake3::hash(parts.chain).as_bytes();
        if self.chains.has(origin, &name, now) {
            return self.check(&parts, statement);
        }
        // Check the name first, which is cheap.
        match signer_of(&parts)? {
            signer if signer == origin => {}
            other => return Err(Forged::OtherSigner(other)),
        }
        if self.refused.has(origin, &name, now) {
            return Err(Forged::RefusedBefore);
        }
        if !self.failures.may_fail(from, now) {
            return Err(Forged::Unjudged);
        }
        self.chains_judged += 1;
        let chain = &parts.certificates;
        let judged = self.judge.judge(chain).map_err(refused);
        if judged.is_err() {
            let until = now.saturating_add(Self::REFUSED_SECONDS);
            self.refused.insert(origin, name, until);
        }
        let verified = judged.and_then(|()| self.check(&parts, statement));
        if verified.is_ok() {
            let until = now.saturating_add(valid_for(chain).as_secs());
            self.chains.insert(origin, name, until);
        } else {
            self.failures.note(from, now);
        }
        verified
    }

    /// Whether the first certificate's key has signed this statement.
    fn check(&self, parts: &Parts<'_>, statement: Statement<'_>) -> Result<(), Forged> {
        let known = self.algorithms.mapping.iter();
        let algorithm = known
            .filter(|(scheme, _)| *scheme == parts.scheme && SCHEMES.contains(scheme))
            .find_map(|(_, algorithms)| algorithms.first())
            .ok_or(Forged::Content)?;
        let leaf = parts.certificates.first().ok_or(Forged::Malformed)?;
        let leaf = EndEntityCert::try_from(leaf).map_err(refused)?;
        leaf.verify_signature(*algorithm, &statement.bytes(), parts.signature)
            .map_err(|_| Forged::Content)
    }
}

/// The signer that the chain names, before it is judged.
fn signer_of(parts: &Parts<'_>) -> Result<PeerId, Forged> {
    let leaf = parts.certificates.first().ok_or(Forged::Malformed)?;
    Ok(Subject::of_certificate(leaf).map_err(refused)?.id)
}

fn refused(error: impl ToString) -> Forged {
    Forged::Certificate(error.to_string())
}

fn signer(identity: &Identity, provider: &CryptoProvider) -> Result<Box<dyn Signer>, NotaryError> {
    let key = provider.key_provider;
    let key: Arc<_> = key.load_private_key(identity.key.clone_key())?;
    key.choose_scheme(&SCHEMES).ok_or(NotaryError::NoScheme)
}

fn chain(identity: &Identity) -> Result<Bytes, NotaryError> {
    let certificates = &identity.chain;
    let bytes = certificates.iter().map(|certificate| 2 + certificate.len());
    let bytes = bytes.sum();
    if bytes > Notary::MAX_CHAIN || certificates.len() > Notary::MAX_CERTIFICATES {
        return Err(NotaryError::ChainTooLong(bytes));
    }
    let mut chain = BytesMut::with_capacity(bytes);
    for certificate in certificates {
        chain.put_u16(certificate.len() as u16);
        chain.put_slice(certificate);
    }
    Ok(chain.freeze())
}

/// The parts of a signature.
struct Parts<'a> {
    scheme: SignatureScheme,
    signature: &'a [u8],
    chain: &'a [u8],
    certificates: Vec<CertificateDer<'a>>,
}

impl<'a> Parts<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (scheme, rest) = number(bytes)?;
        let (signature, chain) = counted(rest)?;
        if signature.len() > Notary::MAX_SIGNATURE || chain.len() > Notary::MAX_CHAIN {
            return None;
        }
        let mut certificates = Vec::new();
        let mut rest = chain;
        while !rest.is_empty() {
            let (certificate, behind) = counted(rest)?;
            if certificates.len() == Notary::MAX_CERTIFICATES {
                return None;
            }
            certificates.push(CertificateDer::from(certificate));
            rest = behind;
        }
        Some(Self {
            scheme: scheme.into(),
            signature,
            chain,
            certificates,
        })
    }
}

fn number(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u16::from_be_bytes(*number), rest))
}

/// Split into the bytes that follow their length, and the rest.
fn counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = number(bytes)?;
    rest.split_at_checked(usize::from(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_beyond_its_bounds_is_malformed() {
        let laid_out = |signature: usize, certificates: &[usize]| {
            let mut bytes = vec![4, 3];
            for length in [signature].iter().chain(certificates) {
                bytes.put_u16(*length as u16);
                bytes.extend(vec![7; *length]);
            }
            bytes
        };
        let longest = Notary::MAX_CHAIN - 2;
        for (signature, certificates, good) in [
            (0, vec![], true),
            (512, vec![longest], true),
            (513, vec![1], false),
            (1, vec![longest + 1], false),
            (1, vec![0; 3], true),
            (1, vec![0; 4], false),
        ] {
            let bytes = laid_out(signature, &certificates);
            let parts = Parts::parse(&bytes);
            assert_eq!(parts.is_some(), good, "{signature} {certificates:?}");
            if let Some(parts) = parts {
                assert_eq!(parts.signature.len(), signature);
                assert_eq!(parts.certificates.len(), certificates.len());
            }
        }
        let good = laid_out(64, &[300, 200]);
        let ends = [4 + 64, 4 + 64 + 302, good.len()];
        for end in 0..=good.len() {
            let is_whole = Parts::parse(&good[..end]).is_some();
            assert_eq!(is_whole, ends.contains(&end), "{end}");
        }
    }
}
