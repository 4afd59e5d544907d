//! Who forwards what to whom: routers, strategies, the relay and its receipts.
//!
//! Not here: building the overlay (`binomesh-overlay`), connections, clocks.
