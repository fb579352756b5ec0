// CuPy's complex<T>, which a kernel may write without a namespace.
#pragma once

#include "../cuda/std/complex"
namespace thrust = ::std;
using std::complex;
using std::real; using std::imag; using std::norm; using std::arg; using std::conj; using std::polar; using std::abs;
using std::exp; using std::log; using std::sqrt; using std::pow;
