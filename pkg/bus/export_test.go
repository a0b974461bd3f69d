package bus

import "context"

// Subscriptions returns how many subscriptions the connection has.
func (c *Conn) Subscriptions() int { return c.nc.NumSubscriptions() }

// SameStream is the check of a replay that read nothing yet, and found a shorter stream that many times before.
func (c *Conn) SameStream(ctx context.Context, stream string, shorter int) error {
	begun, err := c.Stream(ctx, stream)
	if err != nil {
		return err
	}
	r := replaying{conn: c, stream: stream, next: 1, shorter: shorter}
	return r.sameStream(ctx, begun)
}
