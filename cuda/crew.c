/* Threads that drive streams of their own: see crew.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "crew.h"
#include <pthread.h>

typedef struct seat {
    kl_cuda_crew *of;
    int nth; /* which argument is its own */
    pthread_t thread;
} seat;

struct kl_cuda_crew {
    pthread_mutex_t lock; /* for all that follows */
    pthread_cond_t go, done;
    unsigned round; /* counts jobs */
    int n, busy, stop;
    void *(*fn)(void *);
    void *const *arg; /* [n], the caller's */
    int nseat;
    seat seat[KL_NSOLVER - 1];
};

static void *member(void *self)
{
    const seat *const own = self;
    kl_cuda_crew *const c = own->of;
    unsigned seen = 0;
    pthread_mutex_lock(&c->lock);
    for (;;) {
        while (c->round == seen && !c->stop) pthread_cond_wait(&c->go, &c->lock);
        if (c->stop) break;
        seen = c->round;
        if (own->nth >= c->n) continue;
        void *(*const fn)(void *) = c->fn;
        void *const arg = c->arg[own->nth];
        pthread_mutex_unlock(&c->lock);
        fn(arg);
        pthread_mutex_lock(&c->lock);
        if (--c->busy == 0) pthread_cond_signal(&c->done);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static kl_cuda_crew *open_crew(kl_cuda *self)
{
    kl_cuda_crew *c = NULL;
    if (self->host->alloc_bytes((void **)&c, 1, sizeof *c, KL_MEM_MISC, NULL) != KL_OK) return NULL;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->go, NULL);
    pthread_cond_init(&c->done, NULL);
    return self->crew = c;
}

/* As many members as threads can be had, up to n. */
static void engage(const kl_cuda_host *host, kl_cuda_crew *c, int n)
{
    for (; c->nseat < n; c->nseat++) {
        seat *const s = &c->seat[c->nseat];
        *s = (seat){.of = c, .nth = c->nseat + 1};
        if (!host->aside_begin(&s->thread, member, s)) break;
    }
}

void kl_cuda_crew_run(kl_cuda *self, int n, void *(*fn)(void *), void *const *arg)
{
    kl_cuda_crew *const c = n < 2 ? NULL : self->crew ? self->crew : open_crew(self);
    if (c) {
        engage(self->host, c, n - 1 < KL_NSOLVER - 1 ? n - 1 : KL_NSOLVER - 1);
        pthread_mutex_lock(&c->lock);
        c->n = n < c->nseat + 1 ? n : c->nseat + 1;
        c->busy = c->n - 1;
        c->fn = fn;
        c->arg = arg;
        c->round++;
        pthread_cond_broadcast(&c->go);
        pthread_mutex_unlock(&c->lock);
    }
    fn(arg[0]);
    if (!c) return;
    pthread_mutex_lock(&c->lock);
    while (c->busy > 0) pthread_cond_wait(&c->done, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

void kl_cuda_crew_close(kl_cuda *self)
{
    kl_cuda_crew *const c = self->crew;
    if (!c) return;
    pthread_mutex_lock(&c->lock);
    c->stop = 1;
    pthread_cond_broadcast(&c->go);
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < c->nseat; i++) pthread_join(c->seat[i].thread, NULL);
    pthread_cond_destroy(&c->done);
    pthread_cond_destroy(&c->go);
    pthread_mutex_destroy(&c->lock);
    self->host->free_ptr((void **)&self->crew);
}
