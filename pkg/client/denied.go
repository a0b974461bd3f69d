package client

import (
	"context"
	"strings"
	"sync"
)

// denials fails what waits for an answer on a subject that the bus forbids. The bus reports a forbidden subject to the
// connection only, never to the caller.
type denials struct {
	mu      sync.Mutex
	pending map[*denial]struct{}
}

type denial struct {
	subject string
	fail    context.CancelCauseFunc
}

// watch returns a context that ends when the bus forbids subject. The caller must call stop.
func (d *denials) watch(ctx context.Context, subject string) (watched context.Context, stop func()) {
	watched, fail := context.WithCancelCause(ctx)
	one := &denial{subject, fail}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pending == nil {
		d.pending = map[*denial]struct{}{}
	}
	d.pending[one] = struct{}{}
	return watched, func() {
		d.mu.Lock()
		delete(d.pending, one)
		d.mu.Unlock()
		fail(nil)
	}
}

// report fails what waits on the subject that err names. The bus names it in the text only, in quotes.
func (d *denials) report(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for one := range d.pending {
		if strings.Contains(err.Error(), `"`+one.subject+`"`) {
			one.fail(err)
		}
	}
}
