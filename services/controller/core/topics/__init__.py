"""Creation, growth, deletion and configs of topics, internal topics among them. Pure."""
