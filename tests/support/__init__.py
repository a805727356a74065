"""What tests of several folders share: commands, servers, and what runs leave."""
