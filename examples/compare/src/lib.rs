mod contestant;
mod load;
mod os;
mod random;
pub fn main() -> std::process::ExitCode {
    use contestant::*;
    use load::steady::Steady;
    let a: Vec<String> = std::env::args().collect();
    let c = Contestant::from_name(&a[1]).unwrap();
    let l = Steady{pending: a[2].parse().unwrap(), delay: a[3].parse().unwrap(), cancelled: a[4].parse().unwrap(), events: a[5].parse().unwrap(), sizes: Sizes::DEFAULT};
    let t=std::time::Instant::now();
    let f = if c==Contestant::Array {load::array::run(&l)} else {load::steady::run(&l,c)};
    println!("{c:?} {f:?} {:?}", t.elapsed());
    std::process::exit(0)
}
