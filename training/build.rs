//! Lets the trainer's binaries and tests find libtorch at run time without LD_LIBRARY_PATH.

fn main() {
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    if let Ok(libtorch) = std::env::var("LIBTORCH") {
        let libtorch = std::path::absolute(&libtorch).unwrap_or_else(|_| libtorch.into());
        println!("cargo:rustc-link-arg=-Wl,-rpath,{}/lib", libtorch.display());
        // No code refers to its symbols, so a linker that drops unused libraries would drop CUDA.
        if libtorch.join("lib/libtorch_cuda.so").is_file() {
            println!("cargo:rustc-link-arg=-Wl,--no-as-needed,-L{}/lib,-ltorch_cuda,--as-needed", libtorch.display());
        }
    }
}
