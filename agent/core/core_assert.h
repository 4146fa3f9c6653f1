/* Assertions of the core, always compiled in, and the switches by which the simulator breaks a rule
 * on purpose. */
#ifndef LOCKAGENT_CORE_ASSERT_H
#define LOCKAGENT_CORE_ASSERT_H

/* Called for a programmer's error. The archive has a weak definition that traps. The agent's own
 * first prints the expression and its place. */
_Noreturn void lockcore_assert_failed(const char *expression, const char *file, int line);

#define CORE_ASSERT(expression)                                                                    \
    ((expression) ? (void)0 : lockcore_assert_failed(#expression, __FILE__, __LINE__))

/* MUTANT(NAME) is 1 if the core is built with -DMUTANT_NAME=1, otherwise 0. It is a rule broken on
 * purpose, which the simulator must catch (tests/sim). No shipped build defines one. */
#define MUTANT_PLACE_1 0,
#define MUTANT_SECOND(ignored, value, ...) value
#define MUTANT_PICK(place) MUTANT_SECOND(place 1, 0, 0)
#define MUTANT_JOIN(value) MUTANT_PICK(MUTANT_PLACE_##value)
#define MUTANT_VALUE(macro) MUTANT_JOIN(macro)
#define MUTANT(name) MUTANT_VALUE(MUTANT_##name)

#endif
