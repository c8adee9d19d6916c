//! stop
