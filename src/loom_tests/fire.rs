//! fire
