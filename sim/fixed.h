/* Fixed: logarithms, powers and random variates in integers.
 *
 * Whatever goes into a trace hash must not depend on how a compiler arranges floating point, so the
 * models draw from these. Q24: 24 bits after the point. [any after fixed_init()] */
#ifndef SIM_FIXED_H
#define SIM_FIXED_H

#include <sim/sim.h>

#define Q24_ONE (1LL << 24)

void fixed_init(void); /* builds the tables; again = no effect */
int64_t fixed_log2(uint64_t x);                /* Q24 of log2(x); x >= 1 */
uint64_t fixed_exp2(uint64_t scale, int64_t e); /* scale * 2^e, e in Q24; saturates */

/* Exponential with that mean: times between events of a Poisson process. */
uint64_t fixed_exponential(struct sim_rng *r, uint64_t mean);
/* Standard normal, Q24: the sum of twelve uniforms, so never beyond 6. */
int64_t fixed_normal(struct sim_rng *r);
/* Log-normal: median * e^(sigma * normal); sigma in Q24. */
uint64_t fixed_lognormal(struct sim_rng *r, uint64_t median, int64_t sigma);
/* a * b / c without overflow in between; c > 0; saturates. */
uint64_t fixed_mul_div(uint64_t a, uint64_t b, uint64_t c);

#endif
