"""What must survive: jobs, who held what when, decisions, tokens. SQLite by default, PostgreSQL where asked for."""
