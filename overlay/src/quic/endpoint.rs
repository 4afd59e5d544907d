//! The sockets and the QUIC endpoints over them.

use std::net::SocketAddr;
use std::sync::Arc;

use quinn::congestion::CubicConfig;
use quinn::{
    AckFrequencyConfig, ClientConfig, Endpoint, EndpointConfig, IdleTimeout, ServerConfig,
    TokioRuntime, TransportConfig, VarInt,
};
use quinn_proto::HashedConnectionIdGenerator;
use socket2::{Domain, Protocol, Socket, Type};

use super::limits::{
    ACK_DELAY, CONNECTION_WINDOW, INCOMING_BYTES, INITIAL_RTT, INITIAL_WINDOW, SEND_WINDOW,
    SOCKET_BUFFER, STREAM_WINDOW, TransportLimits,
};
use super::metrics::Metrics;
use super::tls::TlsConfigs;
use super::{BindError, beat};

/// The settings of QUIC connections.
fn transport(limits: &TransportLimits) -> Result<Arc<TransportConfig>, BindError> {
    let mut cubic = CubicConfig::default();
    cubic.initial_window(INITIAL_WINDOW);
    let idle = IdleTimeout::try_from(limits.idle_timeout)
        .map_err(|_| BindError::Limits("idle_timeout is too long for QUIC"))?;
    let mut acks = AckFrequencyConfig::default();
    acks.max_ack_delay(Some(ACK_DELAY));
    let mut config = TransportConfig::default();
    config
        .ack_frequency_config(Some(acks))
        .max_concurrent_uni_streams(VarInt::from_u32(limits.uni_streams))
        // The greeting stream is the only bidirectional one.
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        .send_window(SEND_WINDOW)
        // Streams of one class need no fairness: they are written in the order of their opening.
        .send_fairness(false)
        .initial_rtt(INITIAL_RTT)
        .keep_alive_interval(Some(limits.keep_alive))
        .max_idle_timeout(Some(idle))
        .datagram_receive_buffer_size(Some(beat::BUFFER))
        .datagram_send_buffer_size(beat::BUFFER)
        .congestion_controller_factory(Arc::new(cubic));
    Ok(Arc::new(config))
}

/// The settings of the dialling side.
pub(super) fn client(
    tls: &TlsConfigs,
    limits: &TransportLimits,
) -> Result<ClientConfig, BindError> {
    let mut client = ClientConfig::new(tls.client.clone());
    client.transport_config(transport(limits)?);
    Ok(client)
}

/// The settings of the accepting side.
pub(super) fn server(
    tls: &TlsConfigs,
    limits: &TransportLimits,
) -> Result<ServerConfig, BindError> {
    let mut server = ServerConfig::with_crypto(tls.server.clone());
    server
        .transport_config(transport(limits)?)
        // A dialler keeps its links when its address changes, or when an address translator forgets
        // it.
        .migration(true)
        .max_incoming(limits.incoming)
        .incoming_buffer_size_total(INCOMING_BYTES);
    Ok(server)
}

/// Bind one address. The peers of a restarted process notice the restart at once only if both keys
/// that depend on `node_secret` stay the same. With the connection-id key the process recognizes
/// packets for its former connections; with the reset key its peers believe its answer.
pub(super) fn bind(
    address: SocketAddr,
    node_secret: &[u8; 32],
    tls: &TlsConfigs,
    limits: &TransportLimits,
    metrics: &Metrics,
) -> Result<Endpoint, BindError> {
    let reset = blake3::derive_key("binomesh 2025 stateless reset", node_secret);
    let reset = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &reset);
    let ids = blake3::derive_key("binomesh 2025 connection ids", node_secret);
    let [a, b, c, d, e, f, g, h, ..] = ids;
    let ids = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    let mut endpoint = EndpointConfig::new(Arc::new(reset));
    endpoint.cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(ids)));

    let server = server(tls, limits)?;
    let failed = |source| BindError::Socket { address, source };
    let socket = socket(address, SOCKET_BUFFER, metrics).map_err(failed)?;
    Endpoint::new(endpoint, Some(server), socket, Arc::new(TokioRuntime)).map_err(failed)
}

fn socket(
    address: SocketAddr,
    buffer: usize,
    metrics: &Metrics,
) -> std::io::Result<std::net::UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    socket.set_send_buffer_size(buffer)?;
    socket.set_recv_buffer_size(buffer)?;
    // Linux reports twice the size that it grants, for its own use.
    let told = if cfg!(target_os = "linux") { 2 } else { 1 };
    let send = socket.send_buffer_size()? / told;
    let receive = socket.recv_buffer_size()? / told;
    metrics.send_buffer.set(send as f64);
    metrics.receive_buffer.set(receive as f64);
    if send.min(receive) < buffer {
        tracing::warn!(
            wanted_bytes = buffer,
            send_bytes = send,
            receive_bytes = receive,
            "the kernel gave smaller socket buffers; raise net.core.rmem_max and wmem_max"
        );
    }
    socket.bind(&address.into())?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}
