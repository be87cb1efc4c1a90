//! Handles that a flow may use. Fields only, no logic, cheap to clone.
