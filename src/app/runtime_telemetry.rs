//! Turns off ONNX Runtime's own telemetry.
//!
//! Its builds for Linux, such as 1.31, report to their vendor: on loading, before a program can turn it off, the library stores
//! an id in `.cache` in the home folder and looks up a host. Only this variable is read early enough.

/// The environment variable that ONNX Runtime reads.
const TELEMETRY_VARIABLE: &str = "ORT_DISABLE_TELEMETRY";

/// Keeps ONNX Runtime from reporting anything. Call it before any thread is started.
pub fn disable_runtime_telemetry() {
    #[expect(unsafe_code, reason = "the environment must not change while other threads run, and there are none yet")]
    unsafe {
        std::env::set_var(TELEMETRY_VARIABLE, "1");
    }
}
