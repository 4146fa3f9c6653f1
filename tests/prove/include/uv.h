/* The types of libuv that headers name, and no driver looks into. */
#ifndef LOCKAGENT_PROVE_UV_H
#define LOCKAGENT_PROVE_UV_H

typedef struct uv_loop_s {
    void *data;
} uv_loop_t;
typedef struct uv_poll_s {
    void *data;
} uv_poll_t;
typedef struct uv_timer_s {
    void *data;
} uv_timer_t;
typedef struct uv_prepare_s {
    void *data;
} uv_prepare_t;
typedef struct uv_idle_s {
    void *data;
} uv_idle_t;

#endif
