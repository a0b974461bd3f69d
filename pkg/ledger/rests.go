package ledger

// rests lists, for each noun, the nouns that its facts are decided from. A service that
// does not know all of one of them cannot decide about the noun.
var rests = map[Noun][]Noun{
	Application: {Agent, Instance},
	Environment: {Server},
	Agent:       {Application, Instance},
	Server:      {Environment, Instance, Task},
	Instance:    {Server, Agent, Application, Environment, Image, Channel, Task},
	Intent:      {Instance, Server, Agent, Application, Environment, Image, Channel, Task},
	Image:       {Channel, Instance},
	Channel:     {Image, Environment},
	Task:        {Instance, Server, Image},
}

// RestsOn returns the nouns that facts about n are decided from, n itself first.
func (n Noun) RestsOn() []Noun { return append([]Noun{n}, rests[n]...) }
