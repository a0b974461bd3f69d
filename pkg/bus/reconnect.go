package bus

// Reconnect ends the connection and connects again at once, with the credentials as they are then.
// Requests under way fail as at any disconnect. It does not wait for the new connection.
func (c *Conn) Reconnect() error { return c.nc.ForceReconnect() }
