//! ONNX Runtime's own telemetry, which is kept off.
//!
//! Its builds for Linux report to their maker, as 1.31 does: when it is loaded, before a program can tell it not to, it keeps an id
//! in `.cache` of the home folder and looks up a host. Only this variable is read early enough.

/// What ONNX Runtime looks for.
const SWITCH: &str = "ORT_DISABLE_TELEMETRY";

/// Keeps ONNX Runtime from reporting anything. To be called before any thread is started.
pub fn silence_runtime() {
    #[expect(unsafe_code, reason = "the environment must not change beside other threads, and there are none yet")]
    unsafe {
        std::env::set_var(SWITCH, "1");
    }
}
