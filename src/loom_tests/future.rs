//! future
