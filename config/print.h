/* Texts as they stand in YAML; config_print() of config.h is here too. */
#ifndef LOCKAGENT_CONFIG_PRINT_H
#define LOCKAGENT_CONFIG_PRINT_H

#include <stdio.h>

/* Writes `text` as a YAML scalar in double quotes. */
void config_text_print(const char *text, FILE *out);

#endif
