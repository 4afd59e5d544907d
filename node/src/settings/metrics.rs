//! Where metrics are served, and which clients may read them.

use super::{InvalidSetting, NodeConfig};

impl NodeConfig {
    /// Whether a reader of metrics needs a certificate or a token. If so, metrics are served over
    /// TLS.
    pub const fn has_guarded_metrics(&self) -> bool {
        self.metrics_tls || self.metrics_token_file.is_some()
    }

    /// Refuse settings of metrics that contradict each other. Refuse an address beyond loopback
    /// whose readers need neither a certificate nor a token.
    pub(crate) fn check_metrics(&self) -> Result<(), InvalidSetting> {
        let invalid = |key, value: String, expected| {
            Err(InvalidSetting {
                key,
                value,
                expected,
            })
        };
        let token = self.metrics_token_file.as_ref();
        let (address, is_guarded) = (self.metrics, self.has_guarded_metrics());
        if let Some(file) = token.filter(|_| self.metrics_tls) {
            let expected = "no file with `metrics_tls = true`: leave out one of the two";
            return invalid("metrics_token_file", file.display().to_string(), expected);
        }
        if let Some(address) = address.filter(|at| !is_guarded && !at.ip().is_loopback()) {
            let expected = "a loopback address, such as 127.0.0.1:9464; or, for scrapers \
                            elsewhere, `metrics_tls = true` and a certificate of `binomesh ca \
                            issue --monitor NAME`, or a token in `metrics_token_file`";
            return invalid("metrics", address.to_string(), expected);
        }
        if let (None, Some(file)) = (address, token) {
            let expected = "no file without `metrics`, the address where they are served";
            return invalid("metrics_token_file", file.display().to_string(), expected);
        }
        if self.metrics_tls && address.is_none() {
            let expected = "false without `metrics`, the address where they are served";
            return invalid("metrics_tls", "true".to_owned(), expected);
        }
        #[cfg(feature = "ca")]
        if self.metrics_tls && self.job_secret.is_some() {
            let expected = "false with `job_secret`, whose authority certifies no monitor: give \
                            `metrics_token_file`";
            return invalid("metrics_tls", "true".to_owned(), expected);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(edit: impl FnOnce(&mut NodeConfig)) -> Option<String> {
        let mut config = NodeConfig::new("node-1", "c", "s");
        edit(&mut config);
        config.check().err().map(|error| error.to_string())
    }

    #[test]
    fn metrics_beyond_this_host_need_certificates_or_a_token() {
        for address in ["10.0.0.1:1", "0.0.0.0:1", "[::]:1", "[::ffff:127.0.0.1]:1"] {
            let at = |config: &mut NodeConfig| config.metrics = address.parse().ok();
            let error = refused(at).expect("open to all");
            for word in [
                "`metrics`",
                address,
                "metrics_tls",
                "--monitor",
                "metrics_token_file",
            ] {
                assert!(error.contains(word), "{word}: {error}");
            }
            let guarded = |config: &mut NodeConfig| {
                at(config);
                config.metrics_tls = true;
            };
            assert_eq!(refused(guarded), None, "{address}");
            let guarded = |config: &mut NodeConfig| {
                at(config);
                config.metrics_token_file = Some("t".into());
            };
            assert_eq!(refused(guarded), None, "{address}");
        }
        assert_eq!(
            refused(|config| config.metrics = "127.0.0.1:1".parse().ok()),
            None
        );
    }

    #[test]
    fn two_guards_of_metrics_and_a_guard_without_metrics_are_refused() {
        let error = refused(|config| {
            config.metrics = "10.0.0.1:1".parse().ok();
            config.metrics_tls = true;
            config.metrics_token_file = Some("token".into());
        });
        assert!(error.is_some_and(|error| error.contains("`metrics_token_file` is token")));
        let error = refused(|config| config.metrics_tls = true);
        assert!(error.is_some_and(|error| error.contains("`metrics_tls` is true")));
        let error = refused(|config| config.metrics_token_file = Some("token".into()));
        assert!(error.is_some_and(|error| error.contains("without `metrics`")));
    }

    #[cfg(feature = "ca")]
    #[test]
    fn a_job_has_no_monitors() {
        let secret = crate::settings::SecretSource::File("job.secret".into());
        let mut config = NodeConfig::of_job("node-1", secret, "7", "s");
        config.metrics = "10.0.0.1:1".parse().ok();
        config.metrics_tls = true;
        let error = config.check().expect_err("no monitor").to_string();
        assert!(error.contains("job_secret"), "{error}");
    }
}
