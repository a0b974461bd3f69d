package code

// The codes of users: people, and programs that act for them.
const (
	UnknownUser = "UNKNOWN_USER"
	BadRole     = "BAD_ROLE"
	BadKey      = "BAD_KEY"
)

var users = []Entry{
	{
		UnknownUser, by(access),
		"No user has that name.",
		"garrison user list",
	},
	{
		BadRole, by(access),
		"A user has one of three roles: viewer, operator or admin.",
		"garrison user create NAME --role ROLE",
	},
	{
		BadKey, by(access),
		"The public key is not one of a user, belongs to another user or server, or is revoked.",
		"garrison user create NAME, by an admin",
	},
}
